"""The stages of the method, one file each: every stage passes a typed, frozen result to the next."""
