"""Adds tools/oracle to the path: its scripts read models and weight types."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))
