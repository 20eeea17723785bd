#!/usr/bin/env bash
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs one part of the long tests, each of at most an hour on 2 cores:
#   test         everything that make test runs
#   properties   unit tests with 5000 examples a property, every interruption of the sagas, fuzzing
#   layouts      what uses a peering, on clusters of other layouts
#   three        a hub and two leaves
#   chaos        15 minutes of processes that end and networks that are cut
#   storage      databases over two clusters
#   moves        moves of volumes, and their interruptions
#   bench        the benchmark
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The steps of the story that use a peering.
in_use='TestFederation/^(InstallsOnBothClusters|PeersByInvitation|VirtualNodeStandsForTheProvider|WhilePeered|JoinsThePods|LendsNodeByNode|PeersBothWays|SurvivesChaos|UnoffloadBringsPodsHome|UnpeersWithoutATrace)$'

# The steps that interrupt moves of volumes.
interrupted='^(MovesSurvive|EndedPodsDoNotHoldMoves|MovesEndWithTheirNamespace|MovesSurviveLosses|DeletedWhileLocked)$'

case ${1:-} in
  test)
    make test
    ;;
  properties)
    RAPID_CHECKS=5000 hack/test-unit.sh -count=1 -timeout=60m
    SAGA=all go test -count=1 -timeout=30m ./test/saga ./controllers/storage/move
    hack/fuzz.sh 30s
    ;;
  layouts)
    for layout in single wide; do hack/test-e2e.sh -layout=$layout -run "$in_use"; done
    ;;
  three)
    hack/test-e2e.sh -layout=three -databases
    ;;
  chaos)
    hack/test-e2e.sh -layout=disjoint -chaos=15m -run "$in_use"
    ;;
  storage)
    hack/test-e2e.sh -layout=spread -databases -run 'TestFederation/^(InstallsOnBothClusters|PeersByInvitation|VirtualNodeStandsForTheProvider|StoresVolumes|JoinsThePods)$' \
      -skip "TestFederation/JoinsThePods/$interrupted"
    ;;
  moves)
    hack/test-e2e.sh -layout=spread -databases -timeout=60m \
      -run "TestFederation/^(InstallsOnBothClusters|PeersByInvitation|VirtualNodeStandsForTheProvider|JoinsThePods)\$/$interrupted"
    ;;
  bench)
    make bench
    ;;
  *)
    echo "usage: ${0##*/} test|properties|layouts|three|chaos|storage|moves|bench" >&2
    exit 2
    ;;
esac
