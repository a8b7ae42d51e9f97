"""`python -m gatepost` is the `gatepost` command."""

import sys

from gatepost.cli.main import main

sys.exit(main())
