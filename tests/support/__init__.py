"""What several floors' tests share; imported as `tests.support.NAME`."""
