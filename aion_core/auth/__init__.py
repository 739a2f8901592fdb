"""Who may call: what is declared, who somebody has proven to be, and what follows from the two."""
