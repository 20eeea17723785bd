// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

func cluster(name string, change func(*v1alpha1.ForeignCluster)) *v1alpha1.ForeignCluster {
	fc := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-x"}}
	fc.Spec.Outgoing, fc.Spec.Incoming = v1alpha1.PeeringDisabled, v1alpha1.PeeringDisabled
	fc.Status.OutgoingPeering, fc.Status.IncomingPeering = v1alpha1.PeeringNone, v1alpha1.PeeringNone
	change(fc)
	return fc
}

func withProvider(fc *v1alpha1.ForeignCluster) {
	fc.Spec.Outgoing, fc.Status.OutgoingPeering = v1alpha1.PeeringEnabled, v1alpha1.PeeringEstablished
}

func withConsumer(fc *v1alpha1.ForeignCluster) {
	fc.Spec.Incoming, fc.Status.IncomingPeering = v1alpha1.PeeringEnabled, v1alpha1.PeeringPending
}

func namespaceOf(name, role string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{v1alpha1.LabelRole: role}}}
}

// storedOnProvider returns the local volume of a claim whose data a provider stores.
func storedOnProvider(namespace, claim string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + claim}}
	pv.Spec.PersistentVolumeSource = volume.RemoteSource(volume.Handle{
		ClusterID: "milan-id", Namespace: namespace + "-rome", Claim: claim,
	})
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: claim}
	pv.Status.Phase = corev1.VolumeBound
	return pv
}

// moving returns a local volume that a move of a claim uses.
func moving(name, namespace, claim string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		volume.LabelMove: fmt.Sprintf(`{"id":"m","namespace":%q,"claim":%q}`, namespace, claim),
	}}}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: "move-m-source"}
	return pv
}

// uninstallable returns an uninstaller for fake clusters with these objects and namespaces, with the fake federation
// client and the output.
func uninstallable(objects []runtime.Object, namespaces ...runtime.Object) (*uninstaller, *fake.Clientset,
	*bytes.Buffer) {
	client, out := fake.NewSimpleClientset(objects...), &bytes.Buffer{}
	options := NewOptions()
	options.Deadline = time.Minute
	return &uninstaller{
		Clients: Clients{
			Kube: kubefake.NewSimpleClientset(namespaces...), Federation: client,
			Volumes: fakeclient.NewClientBuilder().WithScheme(kit.NewScheme()).Build(),
		},
		Options: options, out: out,
		apiTimeout: 10 * time.Millisecond, cleanUpTimeout: 10 * time.Millisecond, interval: time.Millisecond,
	}, client, out
}

func TestUninstallFailsAndListsObjectsInUse(t *testing.T) {
	offloading := &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "web",
		Name: v1alpha1.NamespaceOffloadingName}}
	var many []runtime.Object
	for i := range 20 {
		many = append(many, cluster(fmt.Sprintf("c%02d", i), withConsumer))
	}
	for _, test := range []struct {
		name       string
		objects    []runtime.Object
		namespaces []runtime.Object
		volumes    []client.Object
		refused    bool
		wantOutput []string
	}{
		{name: "no ForeignCluster", wantOutput: []string{"Nothing is peered"}},
		{name: "ForeignCluster without a peering", objects: []runtime.Object{cluster("milan", func(*v1alpha1.ForeignCluster) {})}, wantOutput: []string{"Nothing is peered"}},
		{name: "other namespaces", namespaces: []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}}, wantOutput: []string{"Nothing is peered"}},
		{name: "outgoing peering", objects: []runtime.Object{cluster("milan", withProvider)}, refused: true,
			wantOutput: []string{
				"ForeignCluster milan: it is a provider of this cluster (Established)", "kubectl delete foreignclusters milan\n"}},
		{name: "incoming peering", objects: []runtime.Object{cluster("rome", withConsumer)}, refused: true,
			wantOutput: []string{
				"ForeignCluster rome: it is a consumer of this cluster (Pending)", "kubectl delete foreignclusters rome\n"}},
		{name: "both directions", objects: []runtime.Object{cluster("rome", withConsumer), cluster("milan", withProvider)},
			refused: true, wantOutput: []string{
				"milan: it is a provider", "rome: it is a consumer", "kubectl delete foreignclusters milan rome\n"}},
		{name: "outgoing peering without a status", objects: []runtime.Object{cluster("milan",
			func(fc *v1alpha1.ForeignCluster) {
				fc.Spec.Outgoing, fc.Status = v1alpha1.PeeringEnabled, v1alpha1.ForeignClusterStatus{}
			})}, refused: true, wantOutput: []string{"it is a provider of this cluster (Pending)"}},
		{name: "peering that is being ended", objects: []runtime.Object{cluster("milan", func(fc *v1alpha1.ForeignCluster) {
			fc.Status.OutgoingPeering = v1alpha1.PeeringDisconnecting
		})}, refused: true, wantOutput: []string{"it is a provider of this cluster (Disconnecting)"}},
		{name: "offloaded namespace", objects: []runtime.Object{offloading}, refused: true, wantOutput: []string{
			"Namespace web is offloaded", "kubectl delete namespaceoffloadings --all --all-namespaces"}},
		{name: "claim whose data a provider stores", volumes: []client.Object{storedOnProvider("db", "data")}, refused: true,
			wantOutput: []string{"Claim db/data has its data on a provider"}},
		{name: "claim whose data is being moved between local volumes", refused: true,
			volumes: []client.Object{moving("pv-source", "db", "data"), moving("pv-target", "db", "data")},
			wantOutput: []string{"The federation is in use:\n" +
				"  The data of claim db/data is being moved: wait until the move has ended, or cancel it\nRun"}},
		{name: "namespace of a peering that has ended",
			namespaces: []runtime.Object{namespaceOf("web-rome", v1alpha1.RoleRemoteNamespace)}, refused: true,
			wantOutput: []string{
				"Namespace web-rome of a peering", "kubectl delete namespaces --selector " + v1alpha1.LabelRole}},
		{name: "more than are named", objects: many, refused: true, wantOutput: []string{"c07", "and 12 more", "kubectl delete foreignclusters --all"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			u, client, out := uninstallable(test.objects, test.namespaces...)
			u.Volumes = fakeclient.NewClientBuilder().WithScheme(kit.NewScheme()).WithObjects(test.volumes...).Build()
			if err := u.run(t.Context()); errors.Is(err, ErrInUse) != test.refused || (err != nil) != test.refused {
				t.Errorf("got %v", err)
			}
			for _, want := range test.wantOutput {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output without %q:\n%s", want, out)
				}
			}
			if out.Len() > 2048 {
				t.Errorf("%d bytes do not fit into a termination message", out.Len())
			}
			for _, action := range client.Actions() {
				if action.GetVerb() != "list" {
					t.Errorf("unexpected %s of %s", action.GetVerb(), action.GetResource().Resource)
				}
			}
		})
	}
}

func TestForceEndsPeeringsWithinTheDeadline(t *testing.T) {
	offloading := &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "web",
		Name: v1alpha1.NamespaceOffloadingName}}
	slow := cluster("milan", withProvider)
	fast := cluster("rome", func(fc *v1alpha1.ForeignCluster) {
		withConsumer(fc)
		fc.Spec.DisconnectTimeoutSeconds = ptr.To[int32](5)
	})
	u, client, out := uninstallable([]runtime.Object{offloading, slow, fast,
		cluster("paris", func(*v1alpha1.ForeignCluster) {})})
	u.Force = true
	if err := u.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var writes []string
	for _, action := range client.Actions() {
		switch a := action.(type) {
		case clienttesting.PatchActionImpl:
			writes = append(writes, "patch "+a.Name+" "+string(a.Patch))
		case clienttesting.DeleteActionImpl:
			writes = append(writes, "delete "+a.Resource.Resource+" "+a.Name)
		}
	}
	want := []string{
		"delete namespaceoffloadings " + v1alpha1.NamespaceOffloadingName,
		`patch milan {"metadata":{"uid":"uid-of-x"},"spec":{"disconnectTimeoutSeconds":60}}`,
		"delete foreignclusters milan",
		"delete foreignclusters rome",
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if !strings.Contains(out.String(), "any more") {
		t.Errorf("output:\n%s", out)
	}
}

func TestGatewayKeysAreDeletedWithoutPeerings(t *testing.T) {
	metadata := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	keys := func(namespace, name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metadata(namespace, name)}
	}
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		force   bool
		refusal error
		deleted bool
		wantErr string
	}{
		{name: "no peering", deleted: true},
		{name: "peering", objects: []runtime.Object{cluster("milan", withProvider)}, wantErr: ErrInUse.Error()},
		{name: "ended peering", objects: []runtime.Object{cluster("milan", withProvider)}, force: true, deleted: true},
		{name: "keys that cannot be deleted", refusal: apierrors.NewForbidden(corev1.Resource("secrets"), v1alpha1.WireGuardSecret, errors.New("no")), wantErr: "Secret liqo/federation-wireguard"},
		{name: "no keys", refusal: apierrors.NewNotFound(corev1.Resource("secrets"), v1alpha1.WireGuardSecret)},
	} {
		t.Run(test.name, func(t *testing.T) {
			u, _, out := uninstallable(test.objects, keys("liqo", v1alpha1.WireGuardSecret), keys("liqo", "another"),
				keys("another", v1alpha1.WireGuardSecret),
				&corev1.ConfigMap{ObjectMeta: metadata("liqo", v1alpha1.WireGuardConfigMap)},
				&corev1.ConfigMap{ObjectMeta: metadata("liqo", "another")},
				&appsv1.Deployment{ObjectMeta: metadata("liqo", v1alpha1.GatewayName)})
			u.Force = test.force
			kube := u.Kube.(*kubefake.Clientset)
			if test.refusal != nil {
				fakes.React(kube, "delete", "secrets",
					func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.refusal })
			}
			err := u.run(t.Context())
			if (err != nil) != (test.wantErr != "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got %v\n%s", err, out)
			}
			var deleted []string
			for _, action := range kube.Actions() {
				resource := action.GetResource().Resource
				if resource == "secrets" && action.GetVerb() != "delete" {
					t.Errorf("unexpected %s of secrets", action.GetVerb())
				}
				if action.GetVerb() == "delete" {
					deleted = append(deleted, resource)
				}
			}
			// The gateway would create the keys again.
			if want := []string{"deployments", "secrets", "configmaps"}; test.deleted && !slices.Equal(deleted, want) {
				t.Errorf("deleted %v, want %v", deleted, want)
			}
			left, err := kube.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
			if err != nil || (len(left.Items) == 2) != test.deleted {
				t.Errorf("%d Secrets are left, %v", len(left.Items), err)
			}
			published, err := kube.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
			if err != nil || test.deleted && len(published.Items) != 1 {
				t.Errorf("%d ConfigMaps are left, %v", len(published.Items), err)
			}
		})
	}
}

func TestUninstallListsObjectsThatExistAfterTheDeadline(t *testing.T) {
	u, client, out := uninstallable([]runtime.Object{cluster("milan", withProvider)},
		namespaceOf("liqo-peer-milan", v1alpha1.RolePeer))
	u.Force, u.Deadline = true, 10*time.Millisecond
	fakes.React(client, "delete", "*",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	if err := u.run(t.Context()); err == nil || errors.Is(err, ErrInUse) {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "still exist after the deadline:\n  ForeignCluster milan") ||
		!strings.Contains(out.String(), "--no-hooks") {
		t.Errorf("output:\n%s", out)
	}
}

func TestUninstallWithoutTheFederationAPIKeepsTheVolumesOfAMove(t *testing.T) {
	u, federation, _ := uninstallable(nil)
	fakes.React(federation, "*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("no endpoints available")
	})
	source := moving("pv-source", "db", "data")
	source.Finalizers = []string{volume.Finalizer}
	u.Volumes = fakeclient.NewClientBuilder().WithScheme(kit.NewScheme()).WithObjects(source).Build()
	if err := u.run(t.Context()); err == nil || !strings.Contains(err.Error(), "claim db/data is being moved") {
		t.Errorf("got %v", err)
	}
	if err := u.Volumes.Get(t.Context(), client.ObjectKeyFromObject(source), source); err != nil ||
		len(source.Finalizers) == 0 {
		t.Errorf("finalizers %v, %v", source.Finalizers, err)
	}
}

func TestUninstallWithoutTheFederationAPIListsNamespaces(t *testing.T) {
	for name, failure := range map[string]error{
		"no APIService": apierrors.NewNotFound(v1alpha1.Resource("foreignclusters"), ""),
		"no endpoints":  apierrors.NewServiceUnavailable("no endpoints available"),
		"timeout":       errors.New("i/o timeout"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, namespaces := range [][]runtime.Object{nil, {namespaceOf("liqo-tenant-rome", v1alpha1.RoleTenant)}} {
				u, client, out := uninstallable(nil, namespaces...)
				u.Force = true
				fakes.React(client, "*", "*",
					func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, failure })
				err := u.run(t.Context())
				if errors.Is(err, ErrInUse) != (namespaces != nil) || (err != nil && namespaces == nil) {
					t.Errorf("with %d namespaces: %v", len(namespaces), err)
				}
				if namespaces != nil && (!strings.Contains(out.String(), "liqo-tenant-rome") ||
					!strings.Contains(out.String(), "--no-hooks")) {
					t.Errorf("output:\n%s", out)
				}
			}
		})
	}
}
