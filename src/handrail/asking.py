import sys

from handrail.gates import asking

sys.modules[__name__] = asking
