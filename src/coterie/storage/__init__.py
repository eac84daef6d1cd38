"""The format of model files: their bytes (``container``) and the values in them (``encoding``)."""
