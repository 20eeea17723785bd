// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/test/integration/framework"
)

func TestPoliciesKeepTheAPIServerToTheLabelOfOffloadedNamespaces(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	shop := env.MakeNamespace(t)
	must(t)(env.Kube.CoreV1().Namespaces().Patch(t.Context(), shop, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"offloading.liqo.io/accounts":"a b"}}}`), metav1.PatchOptions{}))
	namespaces := kubeOf(t, env.ServiceAccount(t, framework.Namespace, "federation-apiserver")).CoreV1().Namespaces()
	patch := func(patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := namespaces.Patch(ctx, shop, types.MergePatchType, []byte(patch), dryPatch)
			return err
		}
	}
	const accounts = "only the controller manager changes"
	expect(t, []attempt{
		{"offloads a namespace", "", patch(`{"metadata":{"labels":{"liqo.io/scheduling-enabled":"true"}}}`)},
		{"sets other labels", "only label liqo.io/scheduling-enabled", patch(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`)},
		{"adds accounts to the annotation", accounts, patch(`{"metadata":{"annotations":{"offloading.liqo.io/accounts":"a b c"}}}`)},
		{"removes accounts from the annotation", accounts, patch(`{"metadata":{"annotations":{"offloading.liqo.io/accounts":null}}}`)},
		{"sets other annotations", "only annotation offloading.liqo.io/accounts", patch(`{"metadata":{"annotations":{"example.org/a":"b"}}}`)},
		{"sets an owner that does not exist", "owners and finalizers",
			patch(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"gone","uid":"gone"}]}}`)},
	})
}
