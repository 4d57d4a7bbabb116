"""The same parties and coordinators between machines."""
