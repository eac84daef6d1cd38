"""What a model's file is made of: its bytes (``container``) and the values in them (``encoding``)."""
