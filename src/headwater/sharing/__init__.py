"""Sharing changes: updategrams and boosters as objects that nodes publish and exchange."""
