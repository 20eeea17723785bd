// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/provider/liveness"
	"liqo.io/federation/test/integration/framework"
)

const heartbeat = "federation-heartbeat"

// renewed returns a merge patch that renews a heartbeat at this time.
func renewed(at time.Time) []byte {
	return fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, at.UTC().Format(metav1.RFC3339Micro))
}

// A peer that may patch any Lease can still change only the renewTime of its own heartbeat.
func TestAPeerWritesNothingButTheTimeIntoItsHeartbeat(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	tenant := makeNamespaceOf(t, env, tenantOf("lecce"), v1alpha1.RoleTenant, "lecce")
	otherNamespace := env.MakeNamespace(t)
	for _, namespace := range []string{tenant, otherNamespace} {
		for _, name := range []string{heartbeat, "another"} {
			must(t)(env.Kube.CoordinationV1().Leases(namespace).Create(t.Context(),
				&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
		}
	}
	everything := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"},
		Verbs: []string{"get", "create", "update", "patch"}, Resources: []string{"leases"}}
	for user, client := range map[string]kubernetes.Interface{
		"peer-of-lecce":             kubeOf(t, env.User(t, "peer-of-lecce", v1alpha1.PeerGroup)),
		account(tenant, "identity"): kubeOf(t, env.ServiceAccount(t, tenant, "identity")),
	} {
		env.Grant(t, user, tenant, everything)
		env.Grant(t, user, otherNamespace, everything)
		patch := func(namespace, name, patch string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := client.CoordinationV1().Leases(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), dryPatch)
				return err
			}
		}
		t.Run(user, func(t *testing.T) {
			beat := string(renewed(time.Now()))
			expect(t, []attempt{
				{"a heartbeat", "", patch(tenant, heartbeat, beat)},
				{"a heartbeat in the future", "", patch(tenant, heartbeat, string(renewed(time.Now().Add(1000*time.Hour))))},
				{"another lease", "no Lease except its heartbeat", patch(tenant, "another", beat)},
				{"a lease of another namespace", "no Lease except its heartbeat", patch(otherNamespace, heartbeat, beat)},
				{"a new lease", "no Lease except its heartbeat", func(ctx context.Context) error {
					_, err := client.CoordinationV1().Leases(tenant).Create(ctx,
						&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, dryCreate)
					return err
				}},
				{"a finalizer", "nothing but renewTime", patch(tenant, heartbeat, `{"metadata":{"finalizers":["example.com/stay"]}}`)},
				{"a label", "nothing but renewTime", patch(tenant, heartbeat, `{"metadata":{"labels":{"a":"b"}}}`)},
				{"an annotation", "nothing but renewTime", patch(tenant, heartbeat, `{"metadata":{"annotations":{"a":"b"}}}`)},
				{"an owner", "nothing but renewTime", patch(tenant, heartbeat, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"x","uid":"y"}]}}`)},
				{"a holder", "nothing but renewTime", patch(tenant, heartbeat, `{"spec":{"holderIdentity":"me"}}`)},
				{"a duration", "nothing but renewTime", patch(tenant, heartbeat, `{"spec":{"leaseDurationSeconds":1000000}}`)},
				{"transitions", "nothing but renewTime", patch(tenant, heartbeat, `{"spec":{"leaseTransitions":7}}`)},
			})
		})
	}
}

// runLiveness runs the controller of heartbeats until the test ends, with the permissions of the
// controller manager and with the test's clock.
func runLiveness(t *testing.T, env *framework.Environment, clock *testingclock.FakePassiveClock) {
	t.Helper()
	account := env.ServiceAccount(t, framework.Namespace, controllerManager)
	runManager(t, account, func(manager ctrl.Manager) error {
		return (&liveness.Reconciler{
			Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: &record.FakeRecorder{}, Clock: clock,
		}).SetupWithManager(manager)
	})
}

func TestExpiredOrphanTTLEndsThePeering(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	env.Kubectl(t, env.Chart(t, "rbac-user-roles.yaml"), "apply", "-f", "-")
	tenant := makeNamespaceOf(t, env, tenantOf("trento"), v1alpha1.RoleTenant, "trento")
	const user = "peer-of-trento"
	own := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: controllerManager, Namespace: framework.Namespace}
	for role, subject := range map[string]rbacv1.Subject{"federation-tenant": userSubject(user),
		"federation-tenant-manager": own} {
		must(t)(env.Kube.RbacV1().RoleBindings(tenant).Create(t.Context(), bindingOf(role, subject), metav1.CreateOptions{}))
	}
	clusters := admin(t).FederationV1alpha1().ForeignClusters()
	fc := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "trento", Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.ForeignClusterSpec{Incoming: v1alpha1.PeeringEnabled}}
	fc.Spec.IncomingPolicy.OrphanTTL = &metav1.Duration{Duration: 3 * time.Minute}
	if _, err := clusters.Create(t.Context(), fc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if _, err := clusters.Patch(ctx, "trento", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
		if err := clusters.Delete(ctx, "trento", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	if _, err := clusters.Patch(t.Context(), "trento", types.MergePatchType,
		encode(fields{"status": fields{"tenantNamespace": tenant}}), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	clock := testingclock.NewFakePassiveClock(time.Now())
	runLiveness(t, env, clock)
	// later advances the clock, waits until the controller has reconciled the consumer, and returns
	// the condition ConsumerAlive.
	later := func(d time.Duration) *metav1.Condition {
		t.Helper()
		clock.SetTime(clock.Now().Add(d))
		patch := encode(fields{"spec": fields{"disconnectTimeoutSeconds": clock.Now().Unix() % 86400}})
		changed, err := clusters.Patch(t.Context(), "trento", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var condition *metav1.Condition
		until(t, "a pass of the controller", func(ctx context.Context) (bool, error) {
			fc, err := clusters.Get(ctx, "trento", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if fc.DeletionTimestamp != nil {
				// In this test, no controller completes the end of the peering.
				condition = nil
				return true, nil
			}
			condition = meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionConsumerAlive)
			return condition != nil && condition.ObservedGeneration == changed.Generation, nil
		})
		return condition
	}

	for range 10 {
		if got := later(time.Minute); got == nil || got.Reason != liveness.ReasonNoHeartbeat {
			t.Fatalf("before the first heartbeat: %+v", got)
		}
	}
	consumer := kubeOf(t, env.User(t, user, v1alpha1.PeerGroup)).CoordinationV1().Leases(tenant)
	until(t, "the consumer to send a heartbeat", func(ctx context.Context) (bool, error) {
		_, err := consumer.Patch(ctx, heartbeat, types.MergePatchType, renewed(time.Now().Add(10000*time.Hour)),
			metav1.PatchOptions{})
		return err == nil, nil
	})
	for minute, want := range []string{liveness.ReasonHeartbeatReceived, liveness.ReasonHeartbeatExpired,
		liveness.ReasonHeartbeatExpired} {
		if got := later(time.Minute); got == nil || got.Reason != want {
			t.Fatalf("%d minutes after the last heartbeat: %+v", minute, got)
		}
	}
	if got := later(time.Minute); got != nil {
		t.Errorf("after its orphanTTL: %+v", got)
	}
}
