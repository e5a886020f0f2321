"""A preset as a form: a plain view-model over the configuration's schema, without a terminal."""
