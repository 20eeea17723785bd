// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

const (
	// virtualClass is the virtual StorageClass of the chart. realClass is the default class of the
	// playground's clusters, which waits for the first pod of a claim.
	virtualClass = "liqo"
	realClass    = "local"
	// immediateClass is another class of the playground, which provisions a claim at once.
	immediateClass = "immediate"
	// toolsImage contains a shell and is available on every node of the playground.
	toolsImage = "registry.k8s.io/e2e-test-images/agnhost:2.65"
)

// grantsStorage offers storage of milan's default class to rome, until the test ends.
func grantsStorage(t *testing.T, amount string) {
	t.Helper()
	offersStorage(t, milan, amount, realClass)
}

// offersStorage offers an amount of storage of these classes of a provider to rome, until the test
// ends.
func offersStorage(t *testing.T, provider *harness.Cluster, amount string, classes ...string) {
	t.Helper()
	offered := `["` + strings.Join(classes, `","`) + `"]`
	patch := fmt.Sprintf(`{"spec":{"incomingPolicy":{"limits":{"requests.storage":%q},"storageClasses":%s}}}`,
		amount, offered)
	kubectl(t, provider, "patch", "fc", "rome", "--type=merge", "-p", patch)
	t.Cleanup(func() {
		provider.Kubectl(context.WithoutCancel(t.Context()), "patch", "fc", "rome", "--type=merge", "-p",
			`{"spec":{"incomingPolicy":{"limits":null,"storageClasses":null}}}`)
	})
	isPrinted(t, rome, "get virtualnode -n liqo-peer-"+provider.Name+" -o jsonpath={.items[*].status.storageClasses}",
		offered)
}

// storing returns a StatefulSet whose pods run on different nodes. Each pod mounts a claim of the
// virtual StorageClass, and appends a line to a file on it when it starts.
func storing(name string, replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](2),
					Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
							LabelSelector: &metav1.LabelSelector{MatchLabels: labels}, TopologyKey: corev1.LabelHostname,
						}},
					}},
					Containers: []corev1.Container{{
						Name: "writer", Image: toolsImage, ImagePullPolicy: corev1.PullIfNotPresent,
						Command: []string{"sh", "-c",
							"hostname >>/data/starts && sync && trap 'exit 0' TERM; while true; do sleep 1; done"},
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
						ReadinessProbe: &corev1.Probe{
							ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-s", "/data/starts"}}},
							PeriodSeconds: 1,
						},
					}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: ptr.To(virtualClass),
					AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")},
					},
				},
			}},
		},
	}
}

// starts returns the number of starts of a pod that storing's pod recorded on its volume.
func starts(t *testing.T, namespace, pod string) int {
	t.Helper()
	return strings.Count(kubectl(t, rome, "exec", "-n", namespace, pod, "--", "cat", "/data/starts"), "\n")
}

// volumeThat waits until a VirtualVolume meets a condition. what describes the condition.
func volumeThat(t *testing.T, namespace, name, what string,
	wanted func(*v1alpha1.VirtualVolume) bool) *v1alpha1.VirtualVolume {
	t.Helper()
	var volume *v1alpha1.VirtualVolume
	eventually(t, soon, fmt.Sprintf("virtual volume %s/%s to %s", namespace, name, what),
		func(ctx context.Context) (bool, string, error) {
			var err error
			volume, err = rome.Federation.FederationV1alpha1().VirtualVolumes(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return wanted(volume), show(volume.Status), nil
		})
	return volume
}

// volumesFollowTheirPods runs a StatefulSet over both clusters. The first pod of each claim
// determines where its data is stored, and later pods must run there. The provider's claim must be
// resized and deleted with the consumer's claim.
func volumesFollowTheirPods(t *testing.T) {
	grantsStorage(t, "1Gi")
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	// There is one replica more than rome has nodes, so that one runs on milan.
	replicas := 1
	for _, node := range realNodes(t, rome) {
		if len(node.Spec.Taints) == 0 {
			replicas++
		}
	}
	must(rome.Kube.AppsV1().StatefulSets(o.namespace).Create(t.Context(), storing("db", int32(replicas)),
		metav1.CreateOptions{}))(t)
	first := podsReady(t, rome, o.namespace, "app=db", replicas)
	stored := map[string]string{}
	remoteClaim := ""
	for _, pod := range first {
		volume := volumeThat(t, o.namespace, "data-"+pod.Name, "be bound", func(v *v1alpha1.VirtualVolume) bool {
			return v.Status.Phase == v1alpha1.VirtualVolumeBound && v.Status.Location != nil
		})
		want := ""
		if pod.Spec.NodeName == virtualNode {
			want, remoteClaim = "milan", volume.Name
			claim := must(milan.Kube.CoreV1().PersistentVolumeClaims(o.remote).Get(t.Context(), volume.Status.Location.ClaimName,
				metav1.GetOptions{}))(t)
			if got := ptr.Deref(claim.Spec.StorageClassName, ""); claim.Status.Phase != corev1.ClaimBound || got != realClass {
				t.Errorf("claim %s on milan is %s with class %s", claim.Name, claim.Status.Phase, got)
			}
		}
		if got := volume.Status.Location.ClusterName; got != want {
			t.Errorf("the data of %s is stored in cluster %q, and its pod runs on %s", volume.Name, got, pod.Spec.NodeName)
		}
		stored[pod.Name] = pod.Spec.NodeName
	}
	if remoteClaim == "" {
		t.Fatalf("the pods run on %v, none of them on milan", stored)
	}

	kubectl(t, rome, "delete", "pod", "-n", o.namespace, "-l", "app=db", "--timeout=110s")
	for _, pod := range podsReady(t, rome, o.namespace, "app=db", replicas) {
		if pod.Spec.NodeName != stored[pod.Name] {
			t.Errorf("pod %s runs on %s, and its data is stored on %s", pod.Name, pod.Spec.NodeName, stored[pod.Name])
		}
		if got := starts(t, o.namespace, pod.Name); got != 2 {
			t.Errorf("the volume of pod %s has %d starts, not 2", pod.Name, got)
		}
	}

	o.reportsUsage(t, remoteClaim)

	kubectl(t, rome, "patch", "pvc", remoteClaim, "-n", o.namespace, "-p",
		`{"spec":{"resources":{"requests":{"storage":"96Mi"}}}}`)
	isPrinted(t, rome, "get pvc "+remoteClaim+" -n "+o.namespace+" -o jsonpath={.status.capacity.storage}", "96Mi")

	kubectl(t, rome, "delete", "statefulset", "db", "-n", o.namespace, "--timeout=110s")
	kubectl(t, rome, "delete", "pvc", "--all", "-n", o.namespace, "--timeout=110s")
	isPrinted(t, milan, "get shvc,pvc -n "+o.remote+" -o name", "")
	for c, namespace := range map[*harness.Cluster]string{rome: o.namespace, milan: o.remote} {
		isPrinted(t, c, `get pv -o jsonpath={.items[?(@.spec.claimRef.namespace=="`+namespace+`")].metadata.name}`, "")
	}
}

// reportsUsage waits until the virtual node reports the capacity of a claim whose data milan stores, and compares it
// with the one that the kubelet on milan reports.
func (o offload) reportsUsage(t *testing.T, claim string) {
	t.Helper()
	capacity := func(c *harness.Cluster, node, namespace, claim string) string {
		t.Helper()
		metric := fmt.Sprintf("kubelet_volume_stats_capacity_bytes{namespace=%q,persistentvolumeclaim=%q} ",
			namespace, claim)
		value := ""
		eventually(t, soon, node+" to report the capacity of claim "+claim,
			func(ctx context.Context) (bool, string, error) {
				result := c.Kubectl(ctx, "get", "--raw", "/api/v1/nodes/"+node+"/proxy/metrics")
				for line := range strings.Lines(result.Stdout) {
					if found, ok := strings.CutPrefix(line, metric); ok {
						value = strings.TrimSpace(found)
					}
				}
				return value != "", "other metrics only", result.Err
			})
		return value
	}
	volume := must(rome.Federation.FederationV1alpha1().VirtualVolumes(o.namespace).Get(t.Context(), claim,
		metav1.GetOptions{}))(t)
	pod := podReady(t, milan, o.remote, strings.TrimPrefix(claim, "data-"))
	got := capacity(rome, virtualNode, o.namespace, claim)
	if want := capacity(milan, pod.Spec.NodeName, o.remote, volume.Status.Location.ClaimName); got != want {
		t.Errorf("the virtual node reports a capacity of %s bytes, and the kubelet %s", got, want)
	}
}

// refusesStorageBeyondTheQuota requests more storage than milan offers. The claim must stay pending, the pod must
// report the reason, and milan must not keep any object for it.
func refusesStorageBeyondTheQuota(t *testing.T) {
	grantsStorage(t, "32Mi")
	o := offloaded(t, remoteOnly)
	must(rome.Kube.AppsV1().StatefulSets(o.namespace).Create(t.Context(), storing("big", 1), metav1.CreateOptions{}))(t)
	podThat(t, rome, o.namespace, "big-0", "be unschedulable for lack of storage", func(p *corev1.Pod) bool {
		return whereIs(p) == "unschedulable" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && strings.Contains(c.Message, "did not have enough free storage")
		})
	})
	isPrinted(t, rome, "get pvc data-big-0 -n "+o.namespace+" -o jsonpath={.status.phase}", "Pending")
	if got := kubectl(t, milan, "get", "shvc", "-n", o.remote, "-o", "name"); got != "" {
		t.Errorf("milan has %s", got)
	}
	grantsStorage(t, "128Mi")
	podReady(t, rome, o.namespace, "big-0")
}

// storedDataBlocksUnpeering unpeers while milan stores data. The peering must stay, a condition
// must name the volume, and it must be possible to withdraw the request.
func storedDataBlocksUnpeering(t *testing.T) {
	grantsStorage(t, "1Gi")
	o := offloaded(t, remoteOnly)
	must(rome.Kube.AppsV1().StatefulSets(o.namespace).Create(t.Context(), storing("db", 1), metav1.CreateOptions{}))(t)
	pod := podReady(t, rome, o.namespace, "db-0")
	t.Cleanup(func() {
		rome.Kubectl(context.WithoutCancel(t.Context()), "patch", "fc", "milan", "--type=merge", "-p",
			`{"spec":{"outgoing":"Enabled"}}`)
	})
	kubectl(t, rome, "patch", "fc", "milan", "--type=merge", "-p", `{"spec":{"outgoing":"Disabled"}}`)
	const condition = `get fc milan -o jsonpath={.status.conditions[?(@.type=="VolumesReleased")].reason}`
	isPrinted(t, rome, condition, "VolumesRemain")
	message := kubectl(t, rome, "get", "fc", "milan", "-o",
		`jsonpath={.status.conditions[?(@.type=="VolumesReleased")].message}`)
	if !strings.Contains(message, o.namespace+"/data-db-0") {
		t.Errorf("the condition does not name the volume: %s", message)
	}
	kubectl(t, rome, "patch", "fc", "milan", "--type=merge", "-p", `{"spec":{"outgoing":"Enabled"}}`)
	isPrinted(t, rome, condition, "")
	// The peering does not end any more, so the command that ends it by force has no effect.
	runsThePage(t, rome, "storage-reference.md#unpeering")
	kubectl(t, rome, "patch", "fc", "milan", "--type=merge", "-p", `{"spec":{"disconnectTimeoutSeconds":null}}`)
	if now := podReady(t, rome, o.namespace, "db-0"); now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
	kubectl(t, rome, "delete", "statefulset", "db", "-n", o.namespace, "--timeout=110s")
	kubectl(t, rome, "delete", "pvc", "data-db-0", "-n", o.namespace, "--timeout=110s")
}

// unoffloadingKeepsData unoffloads a namespace while milan stores data of it. Nothing may be
// deleted, and a condition must name the volume. After the namespace is offloaded again, the pod
// must use the same volume.
func unoffloadingKeepsData(t *testing.T) {
	grantsStorage(t, "1Gi")
	o := offloaded(t, remoteOnly)
	must(rome.Kube.AppsV1().StatefulSets(o.namespace).Create(t.Context(), storing("db", 1), metav1.CreateOptions{}))(t)
	podReady(t, rome, o.namespace, "db-0")
	claim := volumeThat(t, o.namespace, "data-db-0", "be bound", func(v *v1alpha1.VirtualVolume) bool {
		return v.Status.Phase == v1alpha1.VirtualVolumeBound
	}).Status.Location.ClaimName
	kubectl(t, rome, "delete", "namespaceoffloading", "offloading", "-n", o.namespace, "--wait=false")
	eventually(t, soon, "the condition VolumesReleased to name the volume",
		func(ctx context.Context) (bool, string, error) {
			nsof, err := rome.Federation.FederationV1alpha1().NamespaceOffloadings(o.namespace).Get(ctx,
				v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			for _, c := range nsof.Status.Conditions {
				if c.Type == v1alpha1.ConditionVolumesReleased && c.Status == metav1.ConditionFalse {
					return strings.Contains(c.Message, "data-db-0"), c.Message, nil
				}
			}
			return false, show(nsof.Status), nil
		})
	podGone(t, milan, o.remote, "db-0")
	bound := must(milan.Kube.CoreV1().PersistentVolumeClaims(o.remote).Get(t.Context(), claim, metav1.GetOptions{}))(t)
	if bound.Status.Phase != corev1.ClaimBound || bound.DeletionTimestamp != nil {
		t.Errorf("claim %s on milan is %s", claim, show(bound.Status))
	}
	// The data is deleted with the claim.
	kubectl(t, rome, "delete", "statefulset", "db", "-n", o.namespace, "--timeout=110s")
	kubectl(t, rome, "delete", "pvc", "data-db-0", "-n", o.namespace, "--timeout=110s")
	eventually(t, soon, "the remote namespace to be gone", func(ctx context.Context) (bool, string, error) {
		_, err := milan.Kube.CoreV1().Namespaces().Get(ctx, o.remote, metav1.GetOptions{})
		return gone(err)
	})
}

// movesAVolume moves the data of a running pod to the other cluster and back, online. The pod must
// run in the cluster of its data, and the volume must keep every line.
func (f fabric) movesAVolume(t *testing.T) {
	grantsStorage(t, "1Gi")
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	followsItsData(t, o, storing("db", 1), v1alpha1.MoveTarget{ClusterName: "milan"}, v1alpha1.MoveTarget{Local: true})
	// Logs of a pod that is being deleted cannot be read.
	isPrinted(t, rome, "get pods -n "+o.namespace+" -l storage.liqo.io/move -o name", "")
	runsThePage(t, rome, "debugging.md", "namespace=demo pod=web-7d5f service=web",
		"namespace="+o.namespace+" pod=db-0 service=db",
		"claims=bank claim=data-database-0", "claims="+o.namespace+" claim="+movedClaim, "heap.out",
		filepath.Join(t.TempDir(), "heap.out"))
	podReady(t, rome, o.namespace, "db-0")
}

// movesVolumesUnderPodSecurity moves a volume in a namespace with the Pod Security level
// restricted, where movers run as the owner of the files.
func (f fabric) movesVolumesUnderPodSecurity(t *testing.T) {
	grantsStorage(t, "1Gi")
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	kubectl(t, rome, "label", "namespace", o.namespace, "pod-security.kubernetes.io/enforce=restricted")
	set := storing("db", 1)
	set.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1000), FSGroup: ptr.To[int64](1000),
		RunAsNonRoot:   ptr.To(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	set.Spec.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	followsItsData(t, o, set, v1alpha1.MoveTarget{ClusterName: "milan"}, v1alpha1.MoveTarget{Local: true})
}

// movesBetweenProviders moves the data of a running pod from one provider to another one, and then
// to rome. The providers are not peered with each other, so the data passes rome.
func movesBetweenProviders(t *testing.T) {
	for _, leaf := range leaves() {
		offersStorage(t, leaf, "1Gi", realClass)
	}
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	followsItsData(t, o, storing("db", 1), v1alpha1.MoveTarget{ClusterName: "milan"},
		v1alpha1.MoveTarget{ClusterName: "naples"}, v1alpha1.MoveTarget{Local: true})
}

// followsItsData runs the StatefulSet set, whose name is db, on any node, and moves its volume to
// the targets one after the other. It begins with the target after the one that stores the volume
// first.
func followsItsData(t *testing.T, o offload, set *appsv1.StatefulSet, targets ...v1alpha1.MoveTarget) {
	t.Helper()
	set.Spec.Template.Spec.Affinity = nil
	must(rome.Kube.AppsV1().StatefulSets(o.namespace).Create(t.Context(), set, metav1.CreateOptions{}))(t)
	podReady(t, rome, o.namespace, "db-0")
	volumes := rome.Federation.FederationV1alpha1().VirtualVolumes(o.namespace)
	stored := volumeThat(t, o.namespace, "data-db-0", "be bound", func(v *v1alpha1.VirtualVolume) bool {
		return v.Status.Phase == v1alpha1.VirtualVolumeBound && v.Status.Location != nil
	})
	first := 1 + slices.IndexFunc(targets,
		func(target v1alpha1.MoveTarget) bool { return target.ClusterName == stored.Status.Location.ClusterName })
	targets = slices.Concat(targets[first:], targets[:first])
	for started, target := range targets {
		move := &v1alpha1.Move{Spec: v1alpha1.MoveSpec{Target: target}}
		planned := must(volumes.CreateMove(t.Context(), "data-db-0", move,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))(t)
		if planned.Status.Plan == nil || planned.Status.Plan.EvictedPodCount != 1 {
			t.Errorf("the plan is %s", show(planned.Status.Plan))
		}
		must(volumes.CreateMove(t.Context(), "data-db-0", move, metav1.CreateOptions{}))(t)
		moved := volumeThat(t, o.namespace, "data-db-0", "be moved", func(v *v1alpha1.VirtualVolume) bool {
			return v.Status.Move != nil && v.Status.Move.CompletionTime != nil && v.Spec.Move != nil &&
				v.Status.Move.ID == v.Spec.Move.ID
		})
		if moved.Status.Move.Phase != v1alpha1.MoveSucceeded || moved.Status.Location.ClusterName != target.ClusterName {
			t.Fatalf("the move ended as %s", show(moved.Status))
		}
		t.Logf("moved to %s: downtime %d ms", show(target), ptr.Deref(moved.Status.Move.DowntimeMilliseconds, -1))
		node := podReady(t, rome, o.namespace, "db-0").Spec.NodeName
		if follows := node == "liqo-"+target.ClusterName || target.Local && !strings.HasPrefix(node, "liqo-"); !follows {
			t.Errorf("the pod runs on %s", node)
		}
		if got, want := starts(t, o.namespace, "db-0"), started+2; got != want {
			t.Errorf("the volume has %d starts, not %d", got, want)
		}
	}
}
