"""An engine that stays root of its machine, as in a microVM: where a kernel lets nobody else configure IPVS."""

from __future__ import annotations

import os
import sys

from netlab.engine.__main__ import main

if __name__ == "__main__":
    os._exit(main(sys.argv[1:], own_users=False))
