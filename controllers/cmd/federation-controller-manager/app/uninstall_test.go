// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	volumes "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/generated/clientset/versioned/fake"
)

func cluster(name string, change func(*v1alpha1.ForeignCluster)) *v1alpha1.ForeignCluster {
	fc := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-x"}}
	fc.Spec.Outgoing, fc.Spec.Incoming = v1alpha1.PeeringDisabled, v1alpha1.PeeringDisabled
	fc.Status.OutgoingPeering, fc.Status.IncomingPeering = v1alpha1.PeeringNone, v1alpha1.PeeringNone
	change(fc)
	return fc
}

func borrowing(fc *v1alpha1.ForeignCluster) {
	fc.Spec.Outgoing, fc.Status.OutgoingPeering = v1alpha1.PeeringEnabled, v1alpha1.PeeringEstablished
}

func lendingTo(fc *v1alpha1.ForeignCluster) {
	fc.Spec.Incoming, fc.Status.IncomingPeering = v1alpha1.PeeringEnabled, v1alpha1.PeeringPending
}

func namespaceOf(name, role string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelRole: role}}}
}

// uninstallable is an uninstaller of a cluster with these objects.
func uninstallable(ours []runtime.Object, namespaces ...runtime.Object) (*uninstaller, *fake.Clientset, *bytes.Buffer) {
	client, out := fake.NewSimpleClientset(ours...), &bytes.Buffer{}
	return &uninstaller{
		kube: kubefake.NewSimpleClientset(namespaces...), federation: client, out: out, volumes: volumes.NewClientBuilder().WithScheme(kit.NewScheme()).Build(), namespace: "liqo", deadline: time.Minute,
		answerTimeout: 10 * time.Millisecond, cleanUpTimeout: 10 * time.Millisecond, interval: time.Millisecond,
	}, client, out
}

func TestUninstallingIsRefusedWithTheNamesOfThosePeeredWith(t *testing.T) {
	offloading := &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: v1alpha1.NamespaceOffloadingName}}
	var crowd []runtime.Object
	for i := range 20 {
		crowd = append(crowd, cluster(fmt.Sprintf("c%02d", i), lendingTo))
	}
	for _, test := range []struct {
		name       string
		ours       []runtime.Object
		namespaces []runtime.Object
		refused    bool
		says       []string
	}{
		{name: "nobody is known", says: []string{"Nothing is peered"}},
		{name: "somebody is known and not peered with", ours: []runtime.Object{cluster("milan", func(*v1alpha1.ForeignCluster) {})}, says: []string{"Nothing is peered"}},
		{name: "other namespaces are there", namespaces: []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}}, says: []string{"Nothing is peered"}},
		{name: "it borrows", ours: []runtime.Object{cluster("milan", borrowing)}, refused: true, says: []string{
			"ForeignCluster milan: this cluster borrows from it (Established)", "kubectl delete foreignclusters milan\n"}},
		{name: "it lends", ours: []runtime.Object{cluster("rome", lendingTo)}, refused: true, says: []string{
			"ForeignCluster rome: this cluster lends to it (Pending)", "kubectl delete foreignclusters rome\n"}},
		{name: "both", ours: []runtime.Object{cluster("rome", lendingTo), cluster("milan", borrowing)}, refused: true, says: []string{
			"milan: this cluster borrows", "rome: this cluster lends", "kubectl delete foreignclusters milan rome\n"}},
		{name: "it wants to borrow, and nobody has looked at it yet", ours: []runtime.Object{cluster("milan", func(fc *v1alpha1.ForeignCluster) {
			fc.Spec.Outgoing, fc.Status = v1alpha1.PeeringEnabled, v1alpha1.ForeignClusterStatus{}
		})}, refused: true, says: []string{"borrows from it (Pending)"}},
		{name: "it is unpeering", ours: []runtime.Object{cluster("milan", func(fc *v1alpha1.ForeignCluster) {
			fc.Status.OutgoingPeering = v1alpha1.PeeringDisconnecting
		})}, refused: true, says: []string{"borrows from it (Disconnecting)"}},
		{name: "a namespace is offloaded", ours: []runtime.Object{offloading}, refused: true, says: []string{
			"Namespace web is offloaded", "kubectl delete namespaceoffloadings --all --all-namespaces"}},
		{name: "a namespace of a peering was left", namespaces: []runtime.Object{namespaceOf("web-rome", v1alpha1.RoleRemoteNamespace)}, refused: true, says: []string{
			"Namespace web-rome of a peering", "kubectl delete namespaces --selector " + v1alpha1.LabelRole}},
		{name: "too many to name", ours: crowd, refused: true, says: []string{"c07", "and 12 more", "kubectl delete foreignclusters --all"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			u, client, out := uninstallable(test.ours, test.namespaces...)
			if err := u.run(t.Context()); errors.Is(err, errInUse) != test.refused || (err != nil) != test.refused {
				t.Errorf("got %v", err)
			}
			for _, says := range test.says {
				if !strings.Contains(out.String(), says) {
					t.Errorf("it does not say %q:\n%s", says, out)
				}
			}
			if out.Len() > 2048 {
				t.Errorf("%d bytes do not fit into a termination message", out.Len())
			}
			for _, action := range client.Actions() {
				if action.GetVerb() != "list" {
					t.Errorf("it does %s %s", action.GetVerb(), action.GetResource().Resource)
				}
			}
		})
	}
}

func TestWithForceEverythingIsEndedByTheDeadline(t *testing.T) {
	offloading := &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: v1alpha1.NamespaceOffloadingName}}
	patient := cluster("milan", borrowing)
	hasty := cluster("rome", func(fc *v1alpha1.ForeignCluster) {
		lendingTo(fc)
		fc.Spec.DisconnectTimeoutSeconds = ptr.To[int32](5)
	})
	u, client, out := uninstallable([]runtime.Object{offloading, patient, hasty, cluster("paris", func(*v1alpha1.ForeignCluster) {})})
	u.force = true
	if err := u.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var did []string
	for _, action := range client.Actions() {
		switch a := action.(type) {
		case clienttesting.PatchActionImpl:
			did = append(did, "patch "+a.Name+" "+string(a.Patch))
		case clienttesting.DeleteActionImpl:
			did = append(did, "delete "+a.Resource.Resource+" "+a.Name)
		}
	}
	want := []string{
		"delete namespaceoffloadings " + v1alpha1.NamespaceOffloadingName,
		`patch milan {"metadata":{"uid":"uid-of-x"},"spec":{"disconnectTimeoutSeconds":60}}`,
		"delete foreignclusters milan",
		"delete foreignclusters rome",
	}
	if diff := cmp.Diff(want, did); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
	if !strings.Contains(out.String(), "any more") {
		t.Errorf("it says\n%s", out)
	}
}

func TestTheKeysOfTheGatewayGoWhenNobodyIsPeeredWith(t *testing.T) {
	keys := func(namespace, name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	for _, test := range []struct {
		name    string
		ours    []runtime.Object
		force   bool
		refusal error
		goes    bool
		says    string
	}{
		{name: "nobody is peered with", goes: true},
		{name: "somebody is", ours: []runtime.Object{cluster("milan", borrowing)}, says: errInUse.Error()},
		{name: "nobody is any more", ours: []runtime.Object{cluster("milan", borrowing)}, force: true, goes: true},
		{name: "they cannot be deleted", refusal: apierrors.NewForbidden(corev1.Resource("secrets"), v1alpha1.WireGuardSecret, errors.New("no")), says: "Secret liqo/federation-wireguard"},
		{name: "there are none", refusal: apierrors.NewNotFound(corev1.Resource("secrets"), v1alpha1.WireGuardSecret)},
	} {
		t.Run(test.name, func(t *testing.T) {
			u, _, out := uninstallable(test.ours, keys("liqo", v1alpha1.WireGuardSecret), keys("liqo", "another"), keys("another", v1alpha1.WireGuardSecret))
			u.force = test.force
			kube := u.kube.(*kubefake.Clientset)
			if test.refusal != nil {
				kube.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.refusal })
			}
			err := u.run(t.Context())
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v\n%s", err, out)
			}
			for _, action := range kube.Actions() {
				if resource := action.GetResource().Resource; resource == "secrets" && action.GetVerb() != "delete" {
					t.Errorf("it does %s secrets", action.GetVerb())
				}
			}
			left, err := kube.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
			if err != nil || (len(left.Items) == 2) != test.goes {
				t.Errorf("%d Secrets are left, %v", len(left.Items), err)
			}
		})
	}
}

func TestWhatDoesNotEndInTimeIsNamed(t *testing.T) {
	u, client, out := uninstallable([]runtime.Object{cluster("milan", borrowing)}, namespaceOf("liqo-peer-milan", v1alpha1.RolePeer))
	u.force, u.deadline = true, 10*time.Millisecond
	client.PrependReactor("delete", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	if err := u.run(t.Context()); err == nil || errors.Is(err, errInUse) {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "not ended in time:\n  ForeignCluster milan") || !strings.Contains(out.String(), "--no-hooks") {
		t.Errorf("it says\n%s", out)
	}
}

func TestWithoutTheFederationAPINamespacesTellWhetherSomethingIsPeered(t *testing.T) {
	for name, failure := range map[string]error{
		"no APIService":           apierrors.NewNotFound(v1alpha1.Resource("foreignclusters"), ""),
		"nobody behind it":        apierrors.NewServiceUnavailable("no endpoints available"),
		"a server that is silent": errors.New("i/o timeout"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, namespaces := range [][]runtime.Object{nil, {namespaceOf("liqo-tenant-rome", v1alpha1.RoleTenant)}} {
				u, client, out := uninstallable(nil, namespaces...)
				u.force = true
				client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, failure })
				err := u.run(t.Context())
				if errors.Is(err, errInUse) != (namespaces != nil) || (err != nil && namespaces == nil) {
					t.Errorf("with %d namespaces: %v", len(namespaces), err)
				}
				if namespaces != nil && (!strings.Contains(out.String(), "liqo-tenant-rome") || !strings.Contains(out.String(), "--no-hooks")) {
					t.Errorf("it says\n%s", out)
				}
			}
		})
	}
}
