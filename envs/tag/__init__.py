"""Games of tag: many taggers and many runners."""
