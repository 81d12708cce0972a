"""Commands that write a checkpoint, or send one to the Hub."""
