"""`python -m broker` is the command `broker`."""

import sys

from broker.cli import main

sys.exit(main())
