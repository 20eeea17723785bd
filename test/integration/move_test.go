// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	typed "liqo.io/federation/generated/clientset/versioned/typed/federation/v1alpha1"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
	"liqo.io/federation/test/integration/framework"
)

// movableClaim is a claim of the virtual StorageClass in a namespace that is offloaded to a
// cluster, which offers storage.
type movableClaim struct {
	env                      *framework.Environment
	namespace, cluster, name string
	volumes                  typed.VirtualVolumeInterface
}

// makeMovable creates the claim data with a local volume, its VirtualVolume, and a pod that mounts
// it. It sets their status as controllers and kubelet do.
func makeMovable(t *testing.T, cluster, id string) movableClaim {
	t.Helper()
	env := framework.Get(t)
	m := movableClaim{env: env, namespace: env.MakeNamespace(t), cluster: cluster, name: "data"}
	federation := admin(t).FederationV1alpha1()
	m.volumes = federation.VirtualVolumes(m.namespace)
	addProvider(t, env, cluster, id, "north")
	status := func(path string, body fields) {
		t.Helper()
		request := federation.RESTClient().Patch(types.MergePatchType).AbsPath(groupPath + path + "/status")
		if err := request.Body(encode(fields{"status": body})).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	status("/foreignclusters/"+cluster, fields{"networking": "Established"})
	status("/namespaces/"+naming.PeerNamespace(cluster)+"/virtualnodes/"+cluster,
		fields{"storageClasses": []string{"fast", "slow"}, "storage": fields{"requests.storage": "10Gi"}})
	must(t)(federation.NamespaceOffloadings(m.namespace).CreateOffload(t.Context(), "offloading", &v1alpha1.Offload{},
		metav1.CreateOptions{}))
	t.Cleanup(func() { deleteNow(t, offloadingPath(m.namespace)) })
	condition := func(kind string) fields {
		return fields{"type": kind, "status": "True", "reason": "Test", "message": "",
			"lastTransitionTime": "2026-11-21T08:00:00Z"}
	}
	status("/namespaces/"+m.namespace+"/namespaceoffloadings/offloading", fields{"clusters": []any{
		fields{"name": cluster, "conditions": []any{condition("OffloadingRequired"), condition("Ready")}}}})

	m.makeClaim(t)
	must(t)(m.volumes.Create(t.Context(), &v1alpha1.VirtualVolume{ObjectMeta: metav1.ObjectMeta{Name: m.name}},
		metav1.CreateOptions{}))
	status("/namespaces/"+m.namespace+"/virtualvolumes/"+m.name,
		fields{"phase": "Bound", "capacity": "1Gi", "location": fields{"storageClassName": "local",
			"volumeName": m.volume()}})
	m.makePod(t)
	return m
}

func (m movableClaim) volume() string { return "pv-" + m.namespace }

func (m movableClaim) makeClaim(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	class, err := m.env.Kube.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "liqo-" + m.namespace}, Provisioner: v1alpha1.StorageProvisioner,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.env.Kube.StorageV1().StorageClasses().Delete(ctx, class.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claims := m.env.Kube.CoreV1().PersistentVolumeClaims(m.namespace)
	claim, err := claims.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: m.name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class.Name, VolumeName: m.volume(), AccessModes: modes,
			Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, size
	must(t)(claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}))
	volumes := m.env.Kube.CoreV1().PersistentVolumes()
	must(t)(volumes.Create(ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: m.volume()},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, StorageClassName: class.Name,
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs", Path: "/"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: m.namespace, Name: m.name, UID: claim.UID},
		}}, metav1.CreateOptions{}))
	t.Cleanup(func() {
		if err := volumes.Delete(ctx, m.volume(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := volumes.Patch(ctx, m.volume(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func (m movableClaim) makePod(t *testing.T) {
	t.Helper()
	m.env.ServiceAccount(t, m.namespace, "default")
	must(t)(m.env.Kube.CoreV1().Pods(m.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db-0", Labels: map[string]string{"app": "db"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "x", Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: m.name}}}},
		},
	}, metav1.CreateOptions{}))
	must(t)(m.env.Kube.PolicyV1().PodDisruptionBudgets(m.namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}},
	}, metav1.CreateOptions{}))
}

func (m movableClaim) path() string {
	return groupPath + "/namespaces/" + m.namespace + "/virtualvolumes/" + m.name + "/move"
}

func (m movableClaim) to(target v1alpha1.MoveTarget) *v1alpha1.Move {
	return &v1alpha1.Move{Spec: v1alpha1.MoveSpec{Target: target}}
}

// reach sets the phase of the requested move in the status of the VirtualVolume, as its controller
// does.
func (m movableClaim) reach(t *testing.T, phase v1alpha1.MovePhase) {
	t.Helper()
	volume, err := m.volumes.Get(t.Context(), m.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volume.Status.Move = &v1alpha1.MoveProgress{ID: volume.Spec.Move.ID, Phase: phase}
	must(t)(m.volumes.UpdateStatus(t.Context(), volume, metav1.UpdateOptions{}))
}

func TestDataIsMovedThroughTheAggregator(t *testing.T) {
	m := makeMovable(t, "matera", "5b1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d")
	ctx := t.Context()
	wanted := m.to(v1alpha1.MoveTarget{ClusterName: m.cluster})

	before := revisions(t, m.env, m.namespace)
	dry, err := m.volumes.CreateMove(ctx, m.name, wanted, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	plan := dry.Status.Plan
	if plan == nil || plan.Action != v1alpha1.PlanChange || plan.Target.StorageClassName != "fast" ||
		plan.Source.VolumeName != m.volume() ||
		plan.EvictedPodCount != 1 || plan.EvictedPods[0].DisruptionBudget != "db" || plan.Capacity.String() != "1Gi" {
		t.Errorf("the plan is %+v", plan)
	}
	_, err = m.volumes.CreateMove(ctx, m.name, m.to(v1alpha1.MoveTarget{ClusterName: "nowhere"}), metav1.CreateOptions{})
	expectCause(t, err, "spec.target.clusterName")
	_, err = m.volumes.CreateMove(ctx, m.name, m.to(v1alpha1.MoveTarget{Local: true}), metav1.CreateOptions{})
	expectCause(t, err, "spec.target.storageClassName")
	_, err = m.volumes.CreateMove(ctx, m.name, m.to(v1alpha1.MoveTarget{ClusterName: m.cluster,
		StorageClassName: "nvme"}), metav1.CreateOptions{})
	expectCause(t, err, "spec.target.storageClassName")
	_, err = m.volumes.CreateMove(ctx, "other", wanted, metav1.CreateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusNotFound, "only claims of the virtual storage class")
	if diff := written(before, revisions(t, m.env, m.namespace)); diff != "" {
		t.Errorf("objects were written (-before +after):\n%s", diff)
	}

	first, err := m.volumes.CreateMove(ctx, m.name, wanted, metav1.CreateOptions{})
	if err != nil || first.Spec.Strategy != v1alpha1.MoveOnline || first.Status.Plan != nil {
		t.Fatalf("the move is %+v, %v", first, err)
	}
	again, err := m.volumes.CreateMove(ctx, m.name, wanted, metav1.CreateOptions{})
	if err != nil || again.ResourceVersion != first.ResourceVersion {
		t.Errorf("the same again is answered with %+v, %v", again, err)
	}
	other := wanted.DeepCopy()
	other.Spec.Strategy = v1alpha1.MoveOffline
	_, err = m.volumes.CreateMove(ctx, m.name, other, metav1.CreateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusConflict, "spec.strategy")
	m.reach(t, v1alpha1.MoveCopying)
	got, err := m.volumes.GetMove(ctx, m.name, metav1.GetOptions{})
	if err != nil || got.Status.Progress == nil || got.Status.Progress.Phase != v1alpha1.MoveCopying ||
		got.Spec.Target.ClusterName != m.cluster {
		t.Errorf("the move is %+v, %v", got, err)
	}
	if _, err := m.env.TryKubectl(t, "", "patch", "vvol", m.name, "--namespace="+m.namespace, "--subresource=move",
		"--type=merge", "--patch", `{}`); err == nil {
		t.Error("a move can be patched")
	}

	m.reach(t, v1alpha1.MoveSwitching)
	_, err = m.volumes.DeleteMove(ctx, m.name, metav1.DeleteOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusConflict, "wait until it has succeeded")
	m.reach(t, v1alpha1.MoveFinalCopy)
	if _, err := m.volumes.DeleteMove(ctx, m.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	volume, err := m.volumes.Get(ctx, m.name, metav1.GetOptions{})
	if err != nil || volume.Spec.Move != nil {
		t.Errorf("the volume is %+v, %v", volume.Spec, err)
	}
}

func TestKubectlMovesData(t *testing.T) {
	m := makeMovable(t, "lodi", "5c1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d")
	body := `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Move","spec":{"target":{"clusterName":"lodi"},` +
		`"bandwidth":"50Mi"}}`
	var move v1alpha1.Move
	decode(t, m.env.Kubectl(t, body, "create", "--raw", m.path()+"?dryRun=All", "-f", "-"), &move)
	if move.Status.Plan == nil || !strings.Contains(move.Status.Plan.Path, "gateways of this cluster and cluster lodi") {
		t.Errorf("the plan is %+v", move.Status.Plan)
	}
	m.env.Kubectl(t, body, "create", "--raw", m.path(), "-f", "-")
	m.reach(t, v1alpha1.MoveLocking)
	fieldsOf := func(table string) []string {
		lines := strings.Split(strings.TrimSpace(table), "\n")
		return strings.Fields(lines[len(lines)-1])
	}
	if got := fieldsOf(m.env.Kubectl(t, "", "get", "vvol", m.name, "--namespace="+m.namespace)); !slices.Equal(got[:7],
		[]string{m.name, "Local", "Bound", "Unknown", "1Gi", "<none>", "Locking"}) {
		t.Errorf("kubectl prints %q", got)
	}
	if got := fieldsOf(m.env.Kubectl(t, "", "get", "vvol", m.name, "--namespace="+m.namespace,
		"--subresource=move")); !slices.Equal(got[:5],
		[]string{m.name, "lodi", "Online", "Changed", "Locking"}) {
		t.Errorf("kubectl prints %q", got)
	}
	m.env.Kubectl(t, "", "delete", "--raw", m.path())
}

func TestEditorsMoveDataAndViewersSeeIt(t *testing.T) {
	env := framework.Get(t)
	env.Kubectl(t, env.Chart(t, "rbac-user-roles.yaml"), "apply", "-f", "-")
	m := makeMovable(t, "asiago", "5d1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d")
	for user, role := range map[string]string{"a-mover": "federation-edit", "a-watcher": "federation-view"} {
		binding := bindingOf(role, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user})
		binding.Name = user
		must(t)(env.Kube.RbacV1().RoleBindings(m.namespace).Create(t.Context(), binding, metav1.CreateOptions{}))
	}
	editor, viewer := env.User(t, "a-mover"), env.User(t, "a-watcher")
	for _, config := range []*rest.Config{editor, viewer} {
		retry(t, func() (any, error) {
			return federationOf(t, config).FederationV1alpha1().VirtualVolumes(m.namespace).List(t.Context(),
				metav1.ListOptions{})
		})
	}
	const body = `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Move","spec":{"target":{"clusterName":"asiago"}}}`
	parent := strings.TrimSuffix(m.path(), "/move")
	for _, test := range []struct {
		method, path, body string
		editor, viewer     int
	}{
		{http.MethodGet, parent, "", http.StatusOK, http.StatusOK},
		{http.MethodPost, m.path(), body, http.StatusCreated, http.StatusForbidden},
		{http.MethodGet, m.path(), "", http.StatusOK, http.StatusOK},
		{http.MethodDelete, m.path(), "", http.StatusOK, http.StatusForbidden},
		{http.MethodPatch, parent, `{"spec":{"move":null}}`, http.StatusForbidden, http.StatusForbidden},
		{http.MethodPatch, parent + "/status", `{"status":{"phase":"Lost"}}`, http.StatusForbidden, http.StatusForbidden},
		{http.MethodDelete, parent, "", http.StatusForbidden, http.StatusForbidden},
		{http.MethodGet, groupPath + "/virtualvolumes", "", http.StatusForbidden, http.StatusForbidden},
	} {
		for _, one := range []struct {
			name   string
			config *rest.Config
			want   int
		}{{"viewer", viewer, test.viewer}, {"editor", editor, test.editor}} {
			if got, answer := exchange(t, one.config, test.method, test.path, "application/json",
				[]byte(test.body)); got != one.want {
				t.Errorf("%s %s by the %s: got %d, want %d: %.200s", test.method, test.path, one.name, got, one.want, answer)
			}
		}
	}
}

func TestEndOfAnOffloadingWarnsOfItsVolumes(t *testing.T) {
	m := makeMovable(t, "sondrio", "5e1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d")
	volume, err := m.volumes.Get(t.Context(), m.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volume.Status.Location = &v1alpha1.VolumeLocation{ClusterName: m.cluster}
	must(t)(m.volumes.UpdateStatus(t.Context(), volume, metav1.UpdateOptions{}))
	for want, args := range map[string][]string{
		"cluster sondrio stores data: the remote namespace stays": {"delete", "nsof", "offloading",
			"--namespace=" + m.namespace},
		"stores the volumes " + m.namespace + "/data: ": {"delete", "fc", m.cluster},
	} {
		output := m.env.Kubectl(t, "", append(args, "--dry-run=server", "--wait=false")...)
		if !strings.Contains(output, "Warning: ") || !strings.Contains(output, want) {
			t.Errorf("%q warns by\n%s", args, output)
		}
	}
	var offload v1alpha1.Offload
	answer := m.env.Kubectl(t, "", "delete", "--raw", offloadingPath(m.namespace)+"/offload?dryRun=All")
	_, plan, _ := strings.Cut(answer, "\n")
	decode(t, plan, &offload)
	if got := offload.Status.Plan.Volumes; len(got) != 1 || got[0].Name != m.name ||
		got[0].OnUnoffload != v1alpha1.UnoffloadRefuse {
		t.Errorf("the plan lists %+v", got)
	}
}
