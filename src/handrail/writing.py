import sys

from handrail.gates import writing

sys.modules[__name__] = writing
