import sys

from handrail.gates import record

sys.modules[__name__] = record
