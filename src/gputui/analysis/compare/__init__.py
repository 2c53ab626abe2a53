"""Two reports compared: what a change did, how sure that is, and what to change next."""
