import sys

from handrail.gates import finish

sys.modules[__name__] = finish
