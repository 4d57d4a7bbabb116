"""`python -m privfcd` is the `privfcd` command."""

from privfcd.cli import main

main()
