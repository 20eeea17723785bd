// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placements

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

// Case describes a pod with claims that is created in an offloaded namespace, and its expected
// placement.
type Case struct {
	// Name describes the case in a phrase.
	Name string
	// Strategy and Selector are the pod offloading strategy and the cluster selector of the
	// namespace.
	Strategy v1alpha1.PodOffloadingStrategy
	Selector []corev1.NodeSelectorTerm
	// Claims are the claims that the pod mounts.
	Claims []Claim
	// Change modifies the pod before it is created. nil modifies nothing.
	Change func(*corev1.Pod)
	// ByControllers is true if the controller manager creates the pod.
	ByControllers bool

	// Nodes are the names of the nodes on which the pod may run.
	Nodes []string
	// Gated is true if the pod has the scheduling gate of a move.
	Gated bool
	// Denied is a part of the message with which the pod is refused. Empty means that it is
	// admitted.
	Denied string
	// Warning is a part of the warning that the creation of the pod returns. Empty means that there
	// is none.
	Warning string
}

// Pod returns the pod of the case.
func (c Case) Pod() *corev1.Pod {
	pod := Pod(nil)
	for _, claim := range c.Claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, claim.Mount())
	}
	if c.Change != nil {
		c.Change(pod)
	}
	return pod
}

// Sets of nodes, for Case.Nodes.
var (
	everyNode    = []string{"worker", "worker-it", "liqo-milan", "liqo-turin", "liqo-paris"}
	localNodes   = []string{"worker", "worker-it"}
	virtualNodes = []string{"liqo-milan", "liqo-turin", "liqo-paris"}
)

// Short names of the strategies.
const (
	anywhere = v1alpha1.LocalAndRemote
	local    = v1alpha1.Local
	remote   = v1alpha1.Remote
)

var france = []corev1.NodeSelectorTerm{Expressions(In("region", "fr"))}

func ofMove(id string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{volume.LabelMove: id} }
}

func ofDaemonSet(pod *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "1", Controller: ptr.To(true)},
	}
}

func onWorker(pod *corev1.Pod) { pod.Spec.NodeName = "worker" }

func data(claim Claim) []Claim {
	claim.Name = "data"
	return []Claim{claim}
}

// Cases are the pods with claims that every implementation of placement has to place alike.
var Cases = []Case{
	// Unbound claims: the node of the first pod determines where the data is stored.
	{Name: "an unbound claim", Strategy: anywhere, Claims: data(Claim{Class: VirtualClass}), Nodes: everyNode},
	{Name: "an unbound claim, one cluster selected", Strategy: anywhere, Selector: france,
		Claims: data(Claim{Class: VirtualClass}), Nodes: []string{"worker", "worker-it", "liqo-paris"}},
	{Name: "an unbound claim, Local", Strategy: local, Claims: data(Claim{Class: VirtualClass}), Nodes: localNodes},
	{Name: "an unbound claim, Remote", Strategy: remote, Claims: data(Claim{Class: VirtualClass}), Nodes: virtualNodes},
	{Name: "an unbound claim and the pod's own affinity", Strategy: remote, Claims: data(Claim{Class: VirtualClass}),
		Change: func(pod *corev1.Pod) {
			pod.Spec.Affinity = Pod([]corev1.NodeSelectorTerm{Expressions(In("disk", "fast"))}).Spec.Affinity
		},
		Nodes: []string{"liqo-turin", "liqo-paris"}},

	// Claims of a provider's class: only providers that offer the class are allowed.
	{Name: "a class of two providers", Strategy: anywhere,
		Claims: data(Claim{Class: VirtualClass, RemoteClass: "fast"}),
		Nodes:  []string{"worker", "worker-it", "liqo-turin", "liqo-paris"}},
	{Name: "a class of two providers, Remote", Strategy: remote,
		Claims: data(Claim{Class: VirtualClass, RemoteClass: "fast"}), Nodes: []string{"liqo-turin", "liqo-paris"}},
	{Name: "a class of two providers, one cluster selected", Strategy: remote, Selector: france,
		Claims: data(Claim{Class: VirtualClass, RemoteClass: "fast"}), Nodes: []string{"liqo-paris"}},
	{Name: "a class of two providers, Local", Strategy: local,
		Claims: data(Claim{Class: VirtualClass, RemoteClass: "fast"}), Nodes: localNodes},
	{Name: "two classes of one provider", Strategy: remote, Claims: []Claim{
		{Name: "data", Class: VirtualClass, RemoteClass: "fast"}, {Name: "logs", Class: VirtualClass, RemoteClass: "slow"},
	}, Nodes: []string{"liqo-turin"}},
	{Name: "a class of no provider", Strategy: anywhere,
		Claims: data(Claim{Class: VirtualClass, RemoteClass: "tape"}), Nodes: localNodes, Warning: `storage class "tape"`},
	{Name: "a class of no provider, Remote", Strategy: remote,
		Claims: data(Claim{Class: VirtualClass, RemoteClass: "tape"}), Denied: `"tape" by claim "data"`},

	// Claims whose data is in the local cluster.
	{Name: "local data", Strategy: anywhere, Claims: data(Claim{Class: VirtualClass, Data: LocalData}),
		Nodes: localNodes},
	{Name: "local data, Local", Strategy: local, Claims: data(Claim{Class: VirtualClass, Data: LocalData}),
		Nodes: localNodes},
	{Name: "local data, Remote", Strategy: remote, Claims: data(Claim{Class: VirtualClass, Data: LocalData}),
		Nodes: virtualNodes, Warning: "until the data is moved"},

	// Claims whose data is on a provider. The node affinity of the volume also confines the pod.
	{Name: "data on a provider", Strategy: anywhere, Claims: data(Claim{Class: VirtualClass, Data: Milan}),
		Nodes: everyNode},
	{Name: "data on a provider that is not selected", Strategy: anywhere, Selector: france,
		Claims: data(Claim{Class: VirtualClass, Data: Milan}), Nodes: []string{"worker", "worker-it", "liqo-paris"}},
	{Name: "data on a provider, Remote", Strategy: remote, Claims: data(Claim{Class: VirtualClass, Data: Milan}),
		Nodes: virtualNodes},
	{Name: "data on a provider, Local", Strategy: local, Claims: data(Claim{Class: VirtualClass, Data: Milan}),
		Nodes: localNodes, Warning: "until the data is moved"},
	{Name: "data on a provider, of a class that it no longer offers", Strategy: anywhere,
		Claims: data(Claim{Class: VirtualClass, Data: Milan, RemoteClass: "tape"}), Nodes: everyNode},
	{Name: "data on a provider and local data", Strategy: anywhere, Claims: []Claim{
		{Name: "data", Class: VirtualClass, Data: Milan}, {Name: "logs", Class: VirtualClass, Data: LocalData},
	}, Nodes: localNodes, Warning: "until the data is moved"},

	// Claims of classes that are not virtual.
	{Name: "an unbound claim of another class", Strategy: anywhere, Claims: data(Claim{Class: RealClass}),
		Nodes: localNodes},
	{Name: "a claim of another class", Strategy: anywhere, Claims: data(Claim{Class: RealClass, Data: LocalData}),
		Nodes: localNodes},
	{Name: "a claim of another class, Remote", Strategy: remote,
		Claims: data(Claim{Class: RealClass, Data: LocalData}), Nodes: virtualNodes},
	{Name: "a claim of an unknown class", Strategy: anywhere, Claims: data(Claim{Class: UnknownClass}),
		Nodes: localNodes},
	{Name: "a claim without a class", Strategy: anywhere, Claims: data(Claim{}), Nodes: localNodes},
	{Name: "an unbound claim and one of another class", Strategy: anywhere, Claims: []Claim{
		{Name: "data", Class: VirtualClass}, {Name: "logs", Class: RealClass},
	}, Nodes: localNodes},

	// Claims that do not exist.
	{Name: "no claim", Strategy: anywhere, Claims: data(Claim{Missing: true}), Nodes: localNodes,
		Warning: `"data" does not exist`},
	{Name: "no claim, Remote", Strategy: remote, Claims: data(Claim{Missing: true}), Nodes: virtualNodes},
	{Name: "an ephemeral volume", Strategy: anywhere,
		Claims: data(Claim{Class: VirtualClass, Ephemeral: true}), Nodes: everyNode},
	{Name: "an ephemeral volume with a class of two providers", Strategy: remote,
		Claims: data(Claim{Class: VirtualClass, RemoteClass: "fast", Ephemeral: true}),
		Nodes:  []string{"liqo-turin", "liqo-paris"}},
	{Name: "an ephemeral volume of another class", Strategy: anywhere,
		Claims: data(Claim{Class: RealClass, Ephemeral: true}), Nodes: localNodes},

	// Claims whose data is being moved.
	{Name: "local data that is moved", Strategy: anywhere,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, Move: "m1"}), Nodes: everyNode, Gated: true},
	{Name: "data on a provider that is moved", Strategy: anywhere, Selector: france,
		Claims: data(Claim{Class: VirtualClass, Data: Milan, Move: "m1"}),
		Nodes:  []string{"worker", "worker-it", "liqo-paris"}, Gated: true},
	{Name: "data that is moved, of a class that no provider offers", Strategy: anywhere,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, RemoteClass: "tape", Move: "m1"}),
		Nodes:  everyNode, Gated: true},
	{Name: "data that is moved, and a gate of its own", Strategy: local,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, Move: "m1"}),
		Change: func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		},
		Nodes: localNodes, Gated: true},
	{Name: "data that is moved, and that gate", Strategy: local,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, Move: "m1"}),
		Change: func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGateMoving}}
		},
		Nodes: localNodes, Gated: true},
	{Name: "data that is moved, on a node by name", Strategy: anywhere, Change: onWorker,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, Move: "m1"}), Denied: `move m1 of claim "data"`},
	{Name: "local data, on a node by name", Strategy: anywhere, Change: onWorker,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData}), Nodes: localNodes},

	// Movers, which run on the node that their move has selected.
	{Name: "a mover", Strategy: remote, Change: ofMove("m1"), ByControllers: true,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, Move: "m1"}), Nodes: localNodes},
	{Name: "a mover on a node by name", Strategy: remote, ByControllers: true,
		Change: func(pod *corev1.Pod) { ofMove("m1")(pod); onWorker(pod) },
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, Move: "m1"}), Nodes: localNodes},
	{Name: "a mover of another move", Strategy: remote, Change: ofMove("m2"), ByControllers: true,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, Move: "m1"}), Nodes: localNodes, Gated: true},
	{Name: "a mover and the claim of its move", Strategy: remote, Change: ofMove("m1"), ByControllers: true,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, CreatedBy: "m1"}), Nodes: localNodes},
	{Name: "a mover and the claim of another move", Strategy: remote, Change: ofMove("m2"), ByControllers: true,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, CreatedBy: "m1"}), Denied: `move m1`},
	{Name: "a pod and the claim of a move", Strategy: anywhere, Change: ofMove("m1"),
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, CreatedBy: "m1"}), Denied: `move m1`},
	{Name: "a pod with the label of a mover", Strategy: anywhere, Change: ofMove("m1"),
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, Move: "m1"}), Nodes: everyNode, Gated: true},
	{Name: "a pod of the controllers that is no mover", Strategy: anywhere, ByControllers: true,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, Move: "m1"}), Nodes: everyNode, Gated: true},

	// Pods of DaemonSets, which are bound to a node by their controller.
	{Name: "a pod of a DaemonSet", Strategy: remote, Change: ofDaemonSet,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData}), Nodes: localNodes},
	{Name: "a pod of a DaemonSet whose data is moved", Strategy: remote, Change: ofDaemonSet,
		Claims: data(Claim{Class: VirtualClass, Data: LocalData, Move: "m1"}), Nodes: localNodes, Gated: true},
}
