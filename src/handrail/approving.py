import sys

from handrail.gates import approving

sys.modules[__name__] = approving
