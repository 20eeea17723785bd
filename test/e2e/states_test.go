// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// state is the progress of a peering of rome with milan. Each state includes the one before it.
type state int

const (
	// unknown is the state at the start and after a step that failed. It is observed then.
	unknown state = iota
	// bare clusters have no release of the product.
	bare
	// installed clusters have the product and no peer.
	installed
	// peered clusters have an outgoing peering of rome with milan, and no tunnel.
	peered
	// joined clusters have a tunnel between their pods as well.
	joined
)

// clustersAre is the state after the last step.
var clustersAre = unknown

func (s state) String() string {
	return [...]string{"unknown", "bare", "installed", "peered", "joined"}[s]
}

// enter brings clusters from the state before to this one.
var enter = map[state]func(*testing.T){
	installed: installsOnBothClusters, peered: peersByInvitation, joined: joinsPods,
}

// leave brings clusters from this state to the one before, and fails the test if something is left of
// it.
var leave = map[state]func(*testing.T){
	installed: uninstallsFromBothClusters, peered: unpeersBothClusters, joined: separatesPods,
}

// recorded reports whether what the clusters had in this state was recorded in this run.
func (s state) recorded() bool {
	switch s {
	case bare:
		return uninstalled[rome] != nil && uninstalled[milan] != nil
	case installed:
		return unpeered[rome] != nil && unpeered[milan] != nil
	default:
		return unjoined[rome] != nil && unjoined[milan] != nil
	}
}

// reaches brings both clusters to a state, and returns at once if they are in it.
func reaches(t *testing.T, want state) {
	t.Helper()
	if clustersAre == want {
		return
	}
	began := time.Now()
	at, whole := clustersAre, true
	if at == unknown {
		at, whole = observed(t)
	}
	clustersAre = unknown
	if !whole {
		leave[at](t)
		at--
	}
	for ; at > want; at-- {
		leave[at](t)
	}
	for at < want {
		at++
		enter[at](t)
	}
	clustersAre = want
	t.Logf("the clusters are %s after %s", want, time.Since(began).Round(100*time.Millisecond))
}

// observed returns the highest state of which the clusters have something, and whether they have all
// of it.
func observed(t *testing.T) (at state, whole bool) {
	t.Helper()
	releases, tunnels, peers, intact := 0, 0, 0, true
	for _, c := range []*harness.Cluster{rome, milan} {
		if !isReleased(t, c) {
			continue
		}
		releases++
		client := c.Federation.FederationV1alpha1()
		tunnels += len(must(client.TunnelEndpoints(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{}))(t).Items)
		list := must(client.ForeignClusters().List(t.Context(), metav1.ListOptions{}))(t).Items
		peers += len(list)
		intact = intact && len(list) == 1 && isPeered(c, list[0].Status)
	}
	switch {
	case releases == 0:
		return bare, true
	case tunnels > 0:
		return joined, intact
	case peers > 0:
		return peered, intact
	default:
		return installed, releases == 2
	}
}

// isReleased reports whether a cluster has a release of the product.
func isReleased(t *testing.T, c *harness.Cluster) bool {
	t.Helper()
	return c.Helm(t.Context(), "status", harness.Release, "--namespace", harness.Namespace).Err == nil
}

// isPeered reports whether rome uses milan and milan does not use rome, by the status of the peer on a
// cluster.
func isPeered(c *harness.Cluster, status v1alpha1.ForeignClusterStatus) bool {
	outgoing, incoming := v1alpha1.PeeringEstablished, v1alpha1.PeeringNone
	if c == milan {
		outgoing, incoming = incoming, outgoing
	}
	return status.OutgoingPeering == outgoing && status.IncomingPeering == incoming
}

// uninstallsFromBothClusters uninstalls the product from clusters that are not peered.
func uninstallsFromBothClusters(t *testing.T) {
	for _, c := range []*harness.Cluster{rome, milan} {
		if isReleased(t, c) {
			if err := c.Uninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		kubectl(t, c, "delete", "namespace", harness.Namespace, "--ignore-not-found")
		if uninstalled[c] == nil {
			uninstalled[c] = must(c.Snapshot(t.Context()))(t)
		}
		isAsBefore(t, c, uninstalled[c], func(metav1.ObjectMeta) bool { return false })
	}
}

// unpeersBothClusters ends every peering of the clusters.
func unpeersBothClusters(t *testing.T) {
	for _, c := range []*harness.Cluster{rome, milan} {
		kubectl(t, c, "delete", "foreignclusters", "--all", "--timeout=110s")
	}
	for _, c := range []*harness.Cluster{rome, milan} {
		kubectl(t, c, "delete", "peeringtokens", "--all")
		hasNoPeers(t, c)
		if unpeered[c] != nil {
			isUnpeered(t, c)
		}
	}
}

// unjoined is what the nodes of each cluster had before there was a tunnel.
var unjoined = map[*harness.Cluster]map[string]string{}

// joinsPods configures a tunnel on both clusters. In the default layout their pods have the same
// addresses.
func joinsPods(t *testing.T) {
	for _, c := range []*harness.Cluster{rome, milan} {
		unjoined[c] = must(kernels(t.Context(), c))(t)
	}
	done := false
	t.Cleanup(func() {
		if !done {
			collect(t)
			withoutNetwork(t)
		}
	})
	for _, c := range []*harness.Cluster{rome, milan} {
		setsValues(t, c, tunnelValues(t, c)...)
	}
	agreed(t)
	done = true
}

// separatesPods removes the tunnel, and waits until nothing of it is left on any node.
func separatesPods(t *testing.T) {
	withoutNetwork(t)
	for _, c := range []*harness.Cluster{rome, milan} {
		if unjoined[c] != nil {
			kernelsAre(t, c, unjoined[c])
		}
		hasNoTunnels(t, c)
	}
}
