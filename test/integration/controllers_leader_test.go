// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"liqo.io/federation/test/integration/framework"
)

const signer = "federation-identity-signer"

// leads waits until a controller manager holds the Lease of the identity signers, and returns the
// Lease.
func leads(t *testing.T, env *framework.Environment, name string) *coordinationv1.Lease {
	t.Helper()
	var lease *coordinationv1.Lease
	until(t, name+" to lead", func(ctx context.Context) (done bool, err error) {
		lease, err = env.Kube.CoordinationV1().Leases(framework.Namespace).Get(ctx, signer, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == name, err
	})
	return lease
}

func TestTheSecondControllerManagerTakesOverFromTheFirst(t *testing.T) {
	env := framework.Get(t)
	first := env.StartControllers(t, "signer-0", signer, "--controllers=identity-signer")
	leads(t, env, "signer-0")
	// A controller manager is ready even if it is not the leader.
	env.StartControllers(t, "signer-1", signer, "--controllers=identity-signer")
	lease := leads(t, env, "signer-0")

	if err := first.Stop(t, syscall.SIGTERM); err != nil {
		t.Errorf("a leader that receives SIGTERM ends with %v", err)
	}
	stopped := time.Now()
	after := leads(t, env, "signer-1")
	t.Logf("it took over %s after the leader had ended", time.Since(stopped).Round(time.Millisecond))
	if changes := ptr.Deref(after.Spec.LeaseTransitions, 0) - ptr.Deref(lease.Spec.LeaseTransitions, 0); changes < 1 {
		t.Errorf("%d changes of the leader: %s", changes, after)
	}

	// A process that restarts after a crash has the same name, and must be able to acquire the
	// Lease again.
	again := env.StartControllers(t, "signer-0", signer, "--controllers=identity-signer")
	again.Stop(t, syscall.SIGKILL)
	leads(t, env, "signer-1")
}

func TestAControllerManagerMayWriteNoLeaseButItsOwn(t *testing.T) {
	env := framework.Get(t)
	env.Kubectl(t, env.Chart(t, "rbac-controller-manager.yaml", "rbac-storage-provider.yaml", "rbac-identity-signer.yaml"),
		"apply", "-f", "-")
	client, err := kubernetes.NewForConfig(env.ServiceAccount(t, framework.Namespace, "federation-controller-manager"))
	if err != nil {
		t.Fatal(err)
	}
	other := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: signer + "-of-others"}}
	if _, err := env.Kube.CoordinationV1().Leases(framework.Namespace).Create(t.Context(), other,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for what, try := range map[string]func() error{
		"reading": func() error {
			_, err := client.CoordinationV1().Leases(framework.Namespace).Get(t.Context(), other.Name, metav1.GetOptions{})
			return err
		},
		"updating": func() error {
			_, err := client.CoordinationV1().Leases(framework.Namespace).Update(t.Context(), other, metav1.UpdateOptions{})
			return err
		},
		"deleting": func() error {
			return client.CoordinationV1().Leases(framework.Namespace).Delete(t.Context(), other.Name, metav1.DeleteOptions{})
		},
		"creating one in another namespace": func() error {
			_, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Create(t.Context(),
				&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "kube-scheduler"}}, metav1.CreateOptions{})
			return err
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %s", what, fmt.Sprint(err))
		}
	}
}
