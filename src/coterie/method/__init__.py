"""The stages of the method, one file each: what each makes goes to the next as a typed, frozen result."""
