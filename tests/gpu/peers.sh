#!/bin/sh
# The run that needs several real cards, in one call of at most 8 minutes: rates, conformance and
# mapping calls; a job whose overflow lies on peers; two programs of which one is killed; a job
# larger than a card. cards.py says what each is to show, and does it.
#
# Usage: peers.sh [--build FOLDER] [CHECK…]     on two cards or more
#        peers.sh --dry [--build FOLDER]        on one card: two places on it, to try the script
#
# It starts nothing that uses NVLink multicast, and leaves what turns it off as it is set.
set -eu
here=$(dirname "$(readlink -f "$0")")
python=$(command -v python3)
exec "$python" "$here/cards.py" --budget "${PEERS_BUDGET:-460}" "$@"
