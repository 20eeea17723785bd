// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// state is a state of rome and milan. Each state includes the previous one.
type state int

const (
	// unknown is the state when the tests start and after a failed step. The actual state is then
	// determined by observed.
	unknown state = iota
	// bare means that neither cluster has a release of the product.
	bare
	// installed means that both clusters have the product, and no peer.
	installed
	// peered means that rome has an outgoing peering with milan, and that there is no tunnel.
	peered
	// joined means that there is also a tunnel between the pods of both clusters.
	joined
)

// clustersAre is the state of the clusters after the last step.
var clustersAre = unknown

func (s state) String() string {
	return [...]string{"unknown", "bare", "installed", "peered", "joined"}[s]
}

// enter has the functions that bring the clusters to a state from the previous one.
var enter = map[state]func(*testing.T){
	installed: installsOnBothClusters, peered: peersByInvitation, joined: joinsPods,
}

// leave has the functions that bring the clusters from a state back to the previous one. They fail
// the test if an object of the state is left.
var leave = map[state]func(*testing.T){
	installed: uninstallsFromBothClusters, peered: unpeersBothClusters, joined: separatesPods,
}

// recorded reports whether this run has snapshots of both clusters in this state.
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

// reaches brings both clusters to a state. It does nothing if they are in it.
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

// observed returns the highest state whose objects exist, and whether they are complete.
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

// isReleased reports whether a cluster has a Helm release of the product.
func isReleased(t *testing.T, c *harness.Cluster) bool {
	t.Helper()
	return c.Helm(t.Context(), "status", harness.Release, "--namespace", harness.Namespace).Err == nil
}

// isPeered reports whether rome is a consumer of milan and not a provider, according to the
// ForeignCluster status of cluster c.
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

// unjoined has the state of each cluster's nodes before there was a tunnel.
var unjoined = map[*harness.Cluster]map[string]string{}

// joinsPods configures a tunnel on both clusters, and waits until it is established. In the default
// layout, pods of both clusters have the same addresses.
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
	for _, c := range []*harness.Cluster{rome, milan} {
		info := must(c.Federation.FederationV1alpha1().ClusterInfos().Get(t.Context(), v1alpha1.ClusterInfoName,
			metav1.GetOptions{}))(t)
		known := meta.FindStatusCondition(info.Status.Conditions, v1alpha1.ConditionRangesKnown)
		if known == nil || known.Status != metav1.ConditionTrue || (known.Reason == "Detected") != detectsRanges(c) {
			t.Errorf("the ranges of %s: %s", c.Name, show(known))
		}
	}
	done = true
}

// separatesPods removes the tunnel, and waits until no node has objects of it.
func separatesPods(t *testing.T) {
	withoutNetwork(t)
	for _, c := range []*harness.Cluster{rome, milan} {
		if unjoined[c] != nil {
			kernelsAre(t, c, unjoined[c])
		}
		hasNoTunnels(t, c)
	}
}
