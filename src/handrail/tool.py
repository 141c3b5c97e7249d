import sys

from handrail import catalog

sys.modules[__name__] = catalog
