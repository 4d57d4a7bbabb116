"""What passes between machines, and what a party and a coordinator keep of it."""
