import sys

from handrail.gates import reading

sys.modules[__name__] = reading
