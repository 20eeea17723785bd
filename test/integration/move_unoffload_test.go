// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/test/integration/framework"
)

func TestTheControllerManagerMovesDataByTheVerbWithItsChecks(t *testing.T) {
	installRoles(t, framework.Get(t))
	m := makeMovable(t, "cremona", "5f1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d")
	user := serviceaccount.MakeUsername(framework.Namespace, controllerManager)
	m.env.AwaitGrant(t, user, m.namespace, rbacv1.PolicyRule{
		Verbs: []string{"create"}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"virtualvolumes/move"},
	})
	manager, err := client.New(m.env.ServiceAccount(t, framework.Namespace, controllerManager),
		client.Options{Scheme: kit.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	name := types.NamespacedName{Namespace: m.namespace, Name: m.name}
	request := func(target v1alpha1.MoveTarget) (*v1alpha1.VirtualVolume, error) {
		t.Helper()
		var volume v1alpha1.VirtualVolume
		if err := manager.Get(t.Context(), name, &volume); err != nil {
			t.Fatal(err)
		}
		requested := manager.SubResource("move").Create(t.Context(), &volume,
			&v1alpha1.Move{Spec: v1alpha1.MoveSpec{Target: target}})
		if err := manager.Get(t.Context(), name, &volume); err != nil {
			t.Fatal(err)
		}
		return &volume, requested
	}
	volume, err := request(v1alpha1.MoveTarget{ClusterName: "nowhere"})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.target.clusterName") || volume.Spec.Move != nil {
		t.Errorf("a target that does not exist: %v, move %+v", err, volume.Spec.Move)
	}
	volume, err = request(v1alpha1.MoveTarget{ClusterName: m.cluster})
	if err != nil || volume.Spec.Move == nil || volume.Spec.Move.Target.ClusterName != m.cluster {
		t.Errorf("a target that exists: %v, move %+v", err, volume.Spec.Move)
	}
}
