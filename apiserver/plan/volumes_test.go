// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/test/placements"
)

func volumeAt(namespace, name, cluster string) *v1alpha1.VirtualVolume {
	return &v1alpha1.VirtualVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status: v1alpha1.VirtualVolumeStatus{
			Location: &v1alpha1.VolumeLocation{ClusterName: cluster}, Capacity: ptr.To(resource.MustParse("1Gi")),
		},
	}
}

func names(volumes []v1alpha1.PlannedVolume) []string {
	var found []string
	for _, one := range volumes {
		found = append(found, fmt.Sprintf("%s/%s at %s: %s", one.Namespace, one.Name, one.ClusterName, one.OnUnoffload))
	}
	return found
}

func TestOffloadPlanListsVolumesOfClustersThatAreNoLongerSelected(t *testing.T) {
	with := func(policy v1alpha1.UnoffloadPolicy,
		spec *v1alpha1.NamespaceOffloadingSpec) *v1alpha1.NamespaceOffloadingSpec {
		spec.Volumes.OnUnoffload = policy
		return spec
	}
	const refuse, move = v1alpha1.UnoffloadRefuse, v1alpha1.UnoffloadMove
	for _, test := range []struct {
		name          string
		is, requested *v1alpha1.NamespaceOffloadingSpec
		want          []string
		// stays is true if the plan keeps the remote namespace on provider milan.
		stays bool
	}{
		{"a first request", nil, placements.InRegion("south"), nil, false},
		{"the same again", placements.InRegion("north"), placements.InRegion("north"), nil, false},
		{"another region", placements.InRegion("north"), placements.InRegion("south"), []string{"web/data-0 at milan: Refuse",
			"web/data-1 at milan: Refuse"}, true},
		{"another region that is moved from", with(refuse, placements.InRegion("north")),
			with(move, placements.InRegion("south")),
			[]string{"web/data-0 at milan: Move", "web/data-1 at milan: Move"}, false},
		{"only another policy", with(refuse, placements.InRegion("north")), with(move, placements.InRegion("north")), nil, false},
		{"unoffloading", placements.InRegion("north"), nil, []string{"web/data-0 at milan: Refuse", "web/data-1 at milan: Refuse"},
			true},
		{"unoffloading everything", with(move, placements.InRegion()), nil,
			[]string{"web/bari-0 at bari: Move", "web/data-0 at milan: Move", "web/data-1 at milan: Move"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Offload{
				Namespace: "web", Current: test.is, Requested: test.requested, ClusterName: "rome", ClusterID: romeID,
				Nodes:     placements.NoNodes,
				Providers: []placement.Provider{placements.Provider("milan", "north"), placements.Provider("bari", "south")},
				Volumes: []*v1alpha1.VirtualVolume{
					volumeAt("web", "data-1", "milan"), volumeAt("web", "data-0", "milan"), volumeAt("web", "local", ""),
					volumeAt("web", "bari-0", "bari"), {},
				},
			}.Plan()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, names(plan.Volumes)); diff != "" {
				t.Errorf("volumes (-want +got):\n%s", diff)
			}
			milan := plan.Clusters[1]
			if stays := strings.Contains(milan.Message,
				"stays until its volumes"); stays != test.stays || stays && milan.Action != v1alpha1.PlanNone {
				t.Errorf("at milan: %+v", milan)
			}
		})
	}
}

func TestOffloadPlanNamesVolumesOutOfReach(t *testing.T) {
	for strategy, conflicts := range map[v1alpha1.PodOffloadingStrategy]int{v1alpha1.Local: 1,
		v1alpha1.LocalAndRemote: 0} {
		requested := placements.InRegion()
		requested.PodOffloadingStrategy = strategy
		plan, err := Offload{
			Namespace: "web", Current: placements.InRegion(), Requested: requested, ClusterName: "rome", ClusterID: romeID,
			Nodes:     placements.NoNodes,
			Providers: []placement.Provider{placements.Provider("milan", "north")},
			Volumes:   []*v1alpha1.VirtualVolume{volumeAt("web", "data-0", "milan"), volumeAt("web", "local", ""), {}},
		}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Conflicts) != conflicts || conflicts > 0 &&
			!strings.HasPrefix(plan.Conflicts[0], "1 volume(s) are stored on providers") {
			t.Errorf("%s: conflicts %q", strategy, plan.Conflicts)
		}
	}
}

func TestPeeringPlanListsTheVolumesOfTheProvider(t *testing.T) {
	cluster := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"},
		Spec: v1alpha1.ForeignClusterSpec{Outgoing: v1alpha1.PeeringEnabled}}
	left := cluster.DeepCopy()
	left.Spec.Outgoing = v1alpha1.PeeringDisabled
	request := Peer{
		Current: cluster, Requested: left, ClusterID: romeID,
		Policies: map[string]v1alpha1.UnoffloadPolicy{"web": v1alpha1.UnoffloadRetain},
		Volumes: []*v1alpha1.VirtualVolume{volumeAt("web", "data", "milan"), volumeAt("shop", "data", "milan"),
			volumeAt("shop", "other", "bari")},
	}
	if diff := cmp.Diff([]string{"shop/data at milan: Refuse", "web/data at milan: Retain"},
		names(request.Plan().Volumes)); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	request.Requested = cluster
	if got := request.Plan().Volumes; len(got) > 0 {
		t.Errorf("an enabled peering lists %v", names(got))
	}
	request.Requested = left
	for i := range 2 * maxVolumes {
		request.Volumes = append(request.Volumes, volumeAt("shop", fmt.Sprint(i), "milan"))
	}
	if got := len(request.Plan().Volumes); got != maxVolumes {
		t.Errorf("%d volumes are listed", got)
	}
}

func TestOffloadPlanDistinguishesClaimsByTheirClass(t *testing.T) {
	mounting := func(claim string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		}
	}
	ephemeral := func(class *string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: class}}}}}}
		}
	}
	claim := func(name, class string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}}
	}
	claims := Claims{
		Claims: []*corev1.PersistentVolumeClaim{claim("virtual", "liqo"), claim("local", "ssd"), claim("classless", "")},
		Classes: []*storagev1.StorageClass{
			{ObjectMeta: metav1.ObjectMeta{Name: "liqo", Annotations: map[string]string{defaultClassAnnotation: "true"}},
				Provisioner: v1alpha1.StorageProvisioner},
			{ObjectMeta: metav1.ObjectMeta{Name: "ssd"}, Provisioner: "example.com/ssd"},
		},
	}
	for _, test := range []struct {
		name              string
		pod               func(*corev1.Pod)
		conflict, unknown bool
	}{
		{"no claim", func(*corev1.Pod) {}, false, false},
		{"a claim of the virtual class", mounting("virtual"), false, false},
		{"a claim of another class", mounting("local"), true, false},
		{"a claim without a class", mounting("classless"), true, false},
		{"a claim that this cluster does not have", mounting("remote"), false, true},
		{"an ephemeral volume of the default class", ephemeral(nil), false, false},
		{"an ephemeral volume of another class", ephemeral(ptr.To("ssd")), true, false},
		{"a pod of a DaemonSet", func(p *corev1.Pod) { mounting("local")(p); placements.OwnedBy("apps/v1", "DaemonSet")(p) },
			false,
			false},
	} {
		for _, strategy := range []v1alpha1.PodOffloadingStrategy{v1alpha1.Remote, v1alpha1.LocalAndRemote, v1alpha1.Local} {
			t.Run(test.name+" with "+string(strategy), func(t *testing.T) {
				plan, err := Offload{
					Namespace: "web", Requested: &v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: strategy},
					ClusterName: "rome",
					ClusterID:   romeID, Nodes: placements.NoNodes, Pods: []*corev1.Pod{placements.PodOn("worker", test.pod)},
					Claims: claims,
				}.Plan()
				if err != nil {
					t.Fatal(err)
				}
				remote := strategy == v1alpha1.Remote
				if got := strings.Contains(strings.Join(plan.Conflicts, " "),
					"1 pod(s) mount claims of other storage classes"); got != (test.conflict && remote) {
					t.Errorf("conflicts: %q", plan.Conflicts)
				}
				if got := strings.Contains(strings.Join(plan.Unknown, " "),
					"1 pod(s) mount and this cluster does not have"); got != (test.unknown && remote) {
					t.Errorf("unknown: %q", plan.Unknown)
				}
			})
		}
	}
}
