// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

// peeringTokenRules matches requests that create or update PeeringTokens.
func peeringTokenRules() *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{v1alpha1.GroupName}, APIVersions: []string{"v1alpha1"}, Resources: []string{"peeringtokens"},
			},
		},
	}}}
}

func TestValidatingPoliciesOfTheClusterApply(t *testing.T) {
	env := framework.Get(t)
	policies := env.Kube.AdmissionregistrationV1()
	const name = "no-long-invitations"
	_, err := policies.ValidatingAdmissionPolicies().Create(t.Context(),
		&admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: peeringTokenRules(),
				Validations: []admissionregistrationv1.Validation{
					{Expression: "!object.metadata.name.startsWith('policed-') || object.spec.expirationSeconds <= 1000", Message: "invitations are limited to 1000 seconds"}},
			},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(t.Context(),
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := policies.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := policies.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})

	tokens := admin(t).FederationV1alpha1().PeeringTokens()
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	retry(t, func() (any, error) {
		_, err := tokens.Create(t.Context(), newToken("policed-long"), dryRun)
		if err == nil || !strings.Contains(err.Error(), "invitations are limited to 1000 seconds") {
			return nil, fmt.Errorf("an invitation of an hour: got %v", err)
		}
		return nil, nil
	})
	short := newToken("policed-short")
	short.Spec.ExpirationSeconds = ptr.To[int64](900)
	if _, err := tokens.Create(t.Context(), short, dryRun); err != nil {
		t.Errorf("a short invitation: %v", err)
	}
}

func TestMutatingPoliciesOfTheClusterApply(t *testing.T) {
	env := framework.Get(t)
	policies := env.Kube.AdmissionregistrationV1()
	const name = "mark-tokens"
	_, err := policies.MutatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints:   peeringTokenRules(),
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "marked",
				Expression: "object.metadata.name == 'marked'"}},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
					Expression: `Object{metadata: Object.metadata{labels: {"marked": "yes"}}}`},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = policies.MutatingAdmissionPolicyBindings().Create(t.Context(),
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := policies.MutatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := policies.MutatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	tokens := admin(t).FederationV1alpha1().PeeringTokens()
	retry(t, func() (any, error) {
		got, err := tokens.Create(t.Context(), newToken("marked"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && got.Labels["marked"] != "yes" {
			err = fmt.Errorf("got labels %v", got.Labels)
		}
		return nil, err
	})
}

func TestNothingIsCreatedInAMissingNamespace(t *testing.T) {
	env := framework.Get(t)
	body := &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}
	if _, err := admin(t).FederationV1alpha1().NamespaceMaps("nowhere").Create(t.Context(), body,
		metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("in a missing namespace: got %v", err)
	}
	// The finalizer keeps the namespace terminating.
	namespace, err := env.Kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "going-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Kube.CoreV1().Namespaces().Delete(t.Context(), namespace.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	retry(t, func() (any, error) {
		_, err := admin(t).FederationV1alpha1().NamespaceMaps(namespace.Name).Create(t.Context(), body,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil, fmt.Errorf("in a terminating namespace: got %v", err)
		}
		return nil, nil
	})
}
