"""OpenSpiel's games as texts: what is shown, which moves there are, who else may play."""
