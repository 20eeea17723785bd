// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
)

func tunnel(local, remote string) *v1alpha1.TunnelEndpoint {
	return &v1alpha1.TunnelEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: "milan"},
		Spec: v1alpha1.TunnelEndpointSpec{
			Local:  []v1alpha1.CIDRMapping{{CIDR: local, Mapped: local}},
			Remote: []v1alpha1.CIDRMapping{{CIDR: "10.9.0.0/16", Mapped: remote}},
		}}
}

func message(status v1alpha1.ClusterInfoStatus, kind string) string {
	return meta.FindStatusCondition(status.Conditions, kind).Message
}

func TestContradictionsAreReportedWithTheRangesInUse(t *testing.T) {
	for name, test := range map[string]struct {
		objects        []client.Object
		values         Values
		pods, reserved []string
		known          string
		consistent     string
		says           []string
	}{
		"nodes without podCIDRs, and no pod": {
			objects: []client.Object{node("a")}, known: "False PodRangesUnknown", consistent: "True SourcesAgree",
		},
		"a CNI that uses other ranges than nodes have": {
			objects: []client.Object{node("a", "10.244.0.0/24"), ipPool("default-ipv4-ippool", "192.168.0.0/16"),
				kubeadm("10.244.0.0/16", "10.96.0.0/12")},
			pods: []string{"192.168.0.0/16 Calico"}, reserved: []string{"10.244.0.0/16 Kubeadm", "10.244.0.0/24 Node"},
			known: "True Detected", consistent: "False SourcesDisagree",
			says: []string{"Calico has 192.168.0.0/16 for Pods, and Kubeadm has 10.244.0.0/16",
				"the first ranges take precedence"},
		},
		"a value that contradicts what is detected": {
			objects: []client.Object{node("a", "10.244.0.0/24"), kubeadm("10.244.0.0/16", "10.96.0.0/12")},
			values:  Values{PodCIDRs: []string{"10.0.0.0/16"}},
			pods:    []string{"10.0.0.0/16 Value"}, reserved: []string{"10.244.0.0/16 Kubeadm", "10.244.0.0/24 Node"},
			known: "True Configured", consistent: "False ValueContradicted",
			says: []string{"The chart's values have 10.0.0.0/16 for Pods, and Kubeadm has 10.244.0.0/16"},
		},
		"a value that contains what is detected": {
			objects: []client.Object{node("a", "10.244.0.0/24")}, values: Values{PodCIDRs: []string{"10.244.0.0/16"}},
			pods: []string{"10.244.0.0/16 Value"}, known: "True Configured", consistent: "True SourcesAgree",
		},
		"external CIDRs among pods": {
			objects: []client.Object{node("a", "10.244.0.0/24")}, values: Values{ExternalCIDRs: []string{"10.244.0.0/18"}},
			pods: []string{"10.244.0.0/24 Node"}, known: "True Detected", consistent: "False ValueContradicted",
			says: []string{"10.244.0.0/18 of Value overlaps ranges of pods"},
		},
		"a source that names no CIDR": {
			objects: []client.Object{node("a", "10.244.0.0/24"), ipPool("all", "0.0.0.0/0"), ipPool("none", "pods")},
			pods:    []string{"10.244.0.0/24 Node"}, known: "True Detected", consistent: "False InvalidRange",
			says: []string{`"0.0.0.0/0" of Calico is not a valid range`, `"pods" of Calico`},
		},
		"sources that cannot be decoded": {
			objects: []client.Object{k3sServer(`"server"`, "10.244.0.0/24"), flannel("kube-flannel", `{"Network":`),
				configMap("kube-system", "kubeadm-config", map[string]string{"ClusterConfiguration": "networking: []"})},
			pods: []string{"10.244.0.0/24 Node"}, known: "True Detected", consistent: "False InvalidRange",
			says: []string{
				"The configuration of K3s is ignored: parsing annotation k3s.io/node-args of Node k3s-server: ",
				"The configuration of Flannel is ignored: parsing net-conf.json of ConfigMap kube-flannel/kube-flannel-cfg: ",
				"The configuration of Kubeadm is ignored: parsing the ClusterConfiguration of ConfigMap " +
					"kube-system/kubeadm-config: ",
			},
		},
		"a range that a tunnel uses for a peer": {
			objects: []client.Object{node("a", "10.244.0.0/24"), node("b", "10.50.0.0/24"),
				tunnel("10.244.0.0/24", "10.50.0.0/16")},
			pods: []string{"10.244.0.0/24 Node"}, known: "True Detected", consistent: "False RangeTakenByPeer",
			says: []string{"10.50.0.0/24, which Node has for Pods, overlaps a range of peer milan"},
		},
		"two sources with different ranges of Services": {
			objects: []client.Object{node("a", "10.244.0.0/24"), kubeadm("10.244.0.0/16", "10.112.0.0/16"),
				serviceCIDR("10.96.0.0/16")},
			pods: []string{"10.244.0.0/16 Kubeadm"}, reserved: []string{"10.112.0.0/16 Kubeadm"},
			known: "True Detected", consistent: "False SourcesDisagree",
			says: []string{"ServiceCIDR has 10.96.0.0/16 for Services, and Kubeadm has 10.112.0.0/16"},
		},
		"a value that contradicts the detected ranges of Services": {
			objects: []client.Object{node("a", "10.244.0.0/24"), serviceCIDR("10.96.0.0/16")},
			values:  Values{ServiceCIDRs: []string{"10.112.0.0/16"}},
			pods:    []string{"10.244.0.0/24 Node"}, reserved: []string{"10.96.0.0/16 ServiceCIDR"},
			known: "True Detected", consistent: "False ValueContradicted",
			says: []string{"The chart's values have 10.112.0.0/16 for Services, and ServiceCIDR has 10.96.0.0/16"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.objects...)
			w.Values = test.values
			status := w.pass()
			if diff := cmp.Diff(test.pods, of(status, v1alpha1.RangeOfPods)); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.reserved, of(status, v1alpha1.RangeReserved)); diff != "" {
				t.Errorf("reserved (-want +got):\n%s", diff)
			}
			if got := reason(status, v1alpha1.ConditionRangesKnown); got != test.known {
				t.Errorf("RangesKnown is %s: %s", got, message(status, v1alpha1.ConditionRangesKnown))
			}
			for _, text := range test.pods {
				cidr, source, _ := strings.Cut(text, " ")
				if said := message(status, v1alpha1.ConditionRangesKnown); !strings.Contains(said, cidr+" of "+source) {
					t.Errorf("RangesKnown has message %q without %s", said, text)
				}
			}
			if got := reason(status, v1alpha1.ConditionRangesConsistent); got != test.consistent {
				t.Errorf("RangesConsistent is %s: %s", got, message(status, v1alpha1.ConditionRangesConsistent))
			}
			for _, words := range test.says {
				if said := message(status, v1alpha1.ConditionRangesConsistent); !strings.Contains(said, words) {
					t.Errorf("RangesConsistent has message %q without %q", said, words)
				}
			}
			if strings.HasPrefix(test.consistent, "False") && len(w.Events.(*record.FakeRecorder).Events) == 0 {
				t.Error("there is no event")
			}
		})
	}
}

// A CNI that changes its pools while peered must not interrupt a tunnel that is agreed upon
// with the former ones.
func TestRangesOfAnEstablishedTunnelStayInUse(t *testing.T) {
	w := newWorld(t, ipPool("default-ipv4-ippool", "10.244.0.0/16"))
	w.pass()
	established := tunnel("10.244.0.0/16", "10.60.0.0/16")
	if err := w.kube.Create(t.Context(), established); err != nil {
		t.Fatal(err)
	}
	pool := ipPool("default-ipv4-ippool", "10.244.0.0/16")
	if err := w.kube.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if err := w.kube.Create(t.Context(), ipPool("new", "10.48.0.0/16")); err != nil {
		t.Fatal(err)
	}
	status := w.pass()
	if diff := cmp.Diff([]string{"10.48.0.0/16 Calico", "10.244.0.0/16 Calico"},
		of(status, v1alpha1.RangeOfPods)); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if got := reason(status, v1alpha1.ConditionRangesConsistent); got != "False RangesRetained" {
		t.Errorf("RangesConsistent is %s", got)
	}
	if said := message(status, v1alpha1.ConditionRangesKnown); said != "Pods have 10.48.0.0/16, 10.244.0.0/16 of Calico." {
		t.Errorf("RangesKnown has message %q", said)
	}
	if err := w.kube.Delete(t.Context(), established); err != nil {
		t.Fatal(err)
	}
	status = w.pass()
	if diff := cmp.Diff([]string{"10.48.0.0/16 Calico"}, of(status, v1alpha1.RangeOfPods)); diff != "" {
		t.Errorf("pods without the tunnel (-want +got):\n%s", diff)
	}
	if got := reason(status, v1alpha1.ConditionRangesConsistent); got != "True SourcesAgree" {
		t.Errorf("RangesConsistent is %s", got)
	}
}

// changed returns the world of an established tunnel to milan, which uses the local range cidr and 10.60.0.0/16 for
// milan, after the cluster changed from the first to the second object with the given values.
func changed(t *testing.T, cidr string, first, second client.Object, before, after Values) (
	*world, v1alpha1.ClusterInfoStatus,
) {
	t.Helper()
	w := newWorld(t, first)
	w.Values = before
	w.pass()
	if err := w.kube.Create(t.Context(), tunnel(cidr, "10.60.0.0/16")); err != nil {
		t.Fatal(err)
	}
	if err := w.kube.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := w.kube.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	w.Values = after
	return w, w.pass()
}

// Whatever an administrator or the CNI changes, an established tunnel has ranges, and the conditions state the ranges
// in use with their sources, and why they are not the current ones.
func TestEstablishedTunnelKeepsItsRanges(t *testing.T) {
	pods := func(cidrs ...string) Values { return Values{PodCIDRs: cidrs} }
	for name, test := range map[string]struct {
		// local is the range that the tunnel uses.
		local          string
		first, second  client.Object
		before, after  Values
		want           []string
		known, message string
		consistent     string
		says           []string
	}{
		"a pool that shrinks": {
			local: "10.244.0.0/16", first: ipPool("a", "10.244.0.0/16"), second: ipPool("b", "10.244.0.0/17"),
			want:  []string{"10.244.0.0/16 Calico"},
			known: "True Detected", message: "Pods have 10.244.0.0/16 of Calico.", consistent: "False RangesRetained",
			says: []string{"10.244.0.0/16 of Calico", "10.244.0.0/17"},
		},
		"a pool that is split": {
			local: "10.244.0.0/16", first: node("a", "10.244.0.0/16"),
			second: node("b", "10.244.0.0/24", "10.244.1.0/24", "10.48.0.0/24"),
			want:   []string{"10.48.0.0/24 Node", "10.244.0.0/16 Node"},
			known:  "True Detected", message: "Pods have 10.48.0.0/24, 10.244.0.0/16 of Node.",
			consistent: "False RangesRetained", says: []string{"10.244.0.0/16 of Node", "10.244.0.0/24, 10.244.1.0/24"},
		},
		"a pool that grows": {
			local: "10.244.0.0/17", first: ipPool("a", "10.244.0.0/17"), second: ipPool("b", "10.244.0.0/16"),
			want:  []string{"10.244.0.0/16 Calico"},
			known: "True Detected", message: "Pods have 10.244.0.0/16 of Calico.", consistent: "True SourcesAgree",
		},
		"a value within the former range": {
			local: "10.244.0.0/16", first: ipPool("a", "10.244.0.0/16"), second: ipPool("b", "10.244.0.0/17"),
			after: pods("10.244.0.0/17"), want: []string{"10.244.0.0/17 Value"},
			known: "True Configured", message: "Pods have 10.244.0.0/17 of Value.", consistent: "True SourcesAgree",
		},
		"a value that contradicts the detected range": {
			local: "10.244.0.0/24", first: node("a", "10.244.0.0/24"), second: node("b", "10.244.0.0/24"),
			after: pods("10.48.0.0/16"), want: []string{"10.48.0.0/16 Value", "10.244.0.0/24 Node"},
			known: "True Configured", message: "Pods have 10.48.0.0/16 of Value and 10.244.0.0/24 of Node.",
			consistent: "False ValueContradicted",
			says:       []string{"values have 10.48.0.0/16 for Pods", "10.244.0.0/24 of Node, which overlaps a detected range"},
		},
		"a value that contradicts a part of the former range, which is still detected": {
			local: "10.244.0.0/16", first: node("a", "10.244.0.0/16"), second: node("b", "10.244.7.0/24"),
			after: pods("10.48.0.0/16"), want: []string{"10.48.0.0/16 Value", "10.244.0.0/16 Node"},
			known: "True Configured", message: "Pods have 10.48.0.0/16 of Value and 10.244.0.0/16 of Node.",
			consistent: "False ValueContradicted", says: []string{"10.244.0.0/16 of Node, which overlaps a detected range"},
		},
		"a value that replaces another value, and contradicts the detected range": {
			local: "10.244.0.0/16", first: node("a", "10.244.0.0/24"), second: node("b", "10.244.0.0/24"),
			before: pods("10.244.0.0/16"), after: pods("10.48.0.0/16"),
			want:  []string{"10.48.0.0/16 Value", "10.244.0.0/16 Value"},
			known: "True Configured", message: "Pods have 10.48.0.0/16, 10.244.0.0/16 of Value.",
			consistent: "False ValueContradicted", says: []string{"10.244.0.0/16 of Value, which overlaps a detected range"},
		},
		"a value that replaces a range that is no longer detected": {
			local: "10.244.0.0/24", first: node("a", "10.244.0.0/24"), second: node("b", "10.48.1.0/24"),
			after: pods("10.48.0.0/16"), want: []string{"10.48.0.0/16 Value"},
			known: "True Configured", message: "Pods have 10.48.0.0/16 of Value.", consistent: "True SourcesAgree",
		},
		"a value that overlaps a range of the peer": {
			local: "10.244.0.0/24", first: node("a", "10.244.0.0/24"), second: node("b", "10.244.0.0/24"),
			after: pods("10.60.0.0/16"), want: []string{"10.244.0.0/24 Node"},
			known: "True Detected", message: "Pods have 10.244.0.0/24 of Node.", consistent: "False RangeTakenByPeer",
			says: []string{"10.60.0.0/16, which Value has for Pods, overlaps a range of peer milan", "10.244.0.0/24 of Node"},
		},
		"a value that replaces another value, and overlaps a range of the peer": {
			local: "10.48.0.0/16", first: node("a", "10.48.0.0/24"), second: node("b", "10.48.0.0/24"),
			before: pods("10.48.0.0/16"), after: pods("10.60.0.0/16"), want: []string{"10.48.0.0/16 Value"},
			known: "True Configured", message: "Pods have 10.48.0.0/16 of Value.", consistent: "False RangeTakenByPeer",
			says: []string{"10.60.0.0/16, which Value has for Pods, overlaps a range of peer milan", "10.48.0.0/16 of Value"},
		},
		"an IPv4 value that overlaps a range of the peer, and an IPv6 value that does not": {
			local: "10.244.0.0/24", first: node("a", "10.244.0.0/24"), second: node("b", "10.244.0.0/24"),
			after: pods("10.60.0.0/16", "fd00::/48"), want: []string{"fd00::/48 Value", "10.244.0.0/24 Node"},
			known: "True Configured", message: "Pods have fd00::/48 of Value and 10.244.0.0/24 of Node.",
			consistent: "False RangeTakenByPeer", says: []string{"10.244.0.0/24 of Node"},
		},
		"a value of another family than the former range": {
			local: "10.244.0.0/24", first: node("a", "10.244.0.0/24"), second: node("b", "10.244.0.0/24"),
			after: pods("fd00::/48"), want: []string{"fd00::/48 Value", "10.244.0.0/24 Node"},
			known: "True Configured", message: "Pods have fd00::/48 of Value and 10.244.0.0/24 of Node.",
			consistent: "False ValueContradicted", says: []string{"10.244.0.0/24 of Node, which overlaps a detected range"},
		},
		"a value of another family than the former range, which is no longer detected": {
			local: "10.244.0.0/24", first: node("a", "10.244.0.0/24"), second: node("b", "fd00::/64"),
			after: pods("fd00::/48"), want: []string{"fd00::/48 Value"},
			known: "True Configured", message: "Pods have fd00::/48 of Value.", consistent: "True SourcesAgree",
		},
		"a value that is removed": {
			local: "10.48.0.0/16", first: node("a", "10.244.0.0/24"), second: node("b", "10.244.0.0/24"),
			before: pods("10.48.0.0/16"), want: []string{"10.244.0.0/24 Node"},
			known: "True Detected", message: "Pods have 10.244.0.0/24 of Node.", consistent: "True SourcesAgree",
		},
		"a value that is removed, and no range is detected": {
			local: "10.48.0.0/16", first: node("a"), second: node("b"),
			before: pods("10.48.0.0/16"), want: []string{"10.48.0.0/16 Value"},
			known: "True Configured", message: "Pods have 10.48.0.0/16 of Value.", consistent: "False RangesRetained",
			says: []string{"10.48.0.0/16 of Value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, status := changed(t, test.local, test.first, test.second, test.before, test.after)
			if diff := cmp.Diff(test.want, of(status, v1alpha1.RangeOfPods)); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			if got := reason(status, v1alpha1.ConditionRangesKnown); got != test.known {
				t.Errorf("RangesKnown is %s", got)
			}
			if got := message(status, v1alpha1.ConditionRangesKnown); got != test.message {
				t.Errorf("RangesKnown has message %q", got)
			}
			if got := reason(status, v1alpha1.ConditionRangesConsistent); got != test.consistent {
				t.Errorf("RangesConsistent is %s: %s", got, message(status, v1alpha1.ConditionRangesConsistent))
			}
			for _, words := range test.says {
				if said := message(status, v1alpha1.ConditionRangesConsistent); !strings.Contains(said, words) {
					t.Errorf("RangesConsistent has message %q without %q", said, words)
				}
			}
			// The ranges are the current ones once no tunnel uses the former ones.
			if err := w.kube.Delete(t.Context(), tunnel(test.local, "10.60.0.0/16")); err != nil {
				t.Fatal(err)
			}
			without := newWorld(t, test.second)
			without.Values = test.after
			if diff := cmp.Diff(of(without.pass(), v1alpha1.RangeOfPods), of(w.pass(), v1alpha1.RangeOfPods)); diff != "" {
				t.Errorf("pods without the tunnel (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManyNodesAreAggregated(t *testing.T) {
	var objects []client.Object
	for i := range 2 * maxNodeRanges {
		n := node(fmt.Sprintf("node-%d", i), fmt.Sprintf("10.%d.%d.0/24", 100+i/256, i%256))
		// Every other address, so that none can be merged.
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP,
			Address: fmt.Sprintf("172.18.%d.%d", i/100, 2*(i%100))}}
		objects = append(objects, n)
	}
	status := newWorld(t, objects...).pass()
	ranges := netmap.RangesOf(&v1alpha1.ClusterInfo{Status: status})
	if len(ranges.Nodes) > maxNodeRanges || len(ranges.Pods) > maxPodRanges {
		t.Errorf("%d ranges of nodes, %d of pods", len(ranges.Nodes), len(ranges.Pods))
	}
	for _, object := range objects {
		n := object.(*corev1.Node)
		if address := netip.MustParseAddr(n.Status.Addresses[0].Address); !netmap.Covers(ranges.Nodes,
			netip.PrefixFrom(address, 32)) {
			t.Fatalf("%s is in no range of nodes", address)
		}
		if !netmap.Covers(ranges.Pods, netip.MustParsePrefix(n.Spec.PodCIDRs[0])) {
			t.Fatalf("%s is in no range of pods", n.Spec.PodCIDRs[0])
		}
	}
}

func TestAnAggregateContainsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cidrs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix {
			address := netip.AddrFrom4([4]byte{10, rapid.Byte().Draw(t, "2"), rapid.Byte().Draw(t, "3"),
				rapid.Byte().Draw(t, "4")})
			return netip.PrefixFrom(address, rapid.IntRange(8, 32).Draw(t, "bits")).Masked()
		}), 1, 40).Draw(t, "cidrs")
		most := rapid.IntRange(1, 20).Draw(t, "most")
		aggregated := aggregate(cidrs, most)
		if len(aggregated) > most {
			t.Fatalf("%d CIDRs, and not %d at most", len(aggregated), most)
		}
		for _, cidr := range cidrs {
			if !netmap.Covers(aggregated, cidr) {
				t.Fatalf("%s is in none of %v", cidr, aggregated)
			}
		}
	})
}
