// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fairness assigns the requests of consumers that use ServiceAccounts to the API priority
// levels for peers.
package fairness

import (
	"context"
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in --controllers, logs and metrics.
const Name = "peer-fairness"

// flowSchemas maps the names of the chart's FlowSchemas for consumers with ServiceAccounts to their
// verbs. The ServiceAccounts must be listed by name; only certificates have a common group.
var flowSchemas = map[string][]string{
	"federation-peer-account-lists": {"list", "watch"},
	"federation-peer-accounts":      {flowcontrolv1.VerbAll},
}

// Reconciler writes the ServiceAccounts of all consumers to the FlowSchemas of the chart.
type Reconciler struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader

	// start enqueues each FlowSchema once after the start, because the last consumer may have been deleted
	// while no process was running.
	start kit.Trigger
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	for _, request := range allSchemas() {
		r.start.Add(request)
	}
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(schemasOfBinding)).
		WatchesRawSource(&r.start).
		WithOptions(kit.Options(1)).
		Complete(r)
}

func allSchemas() []reconcile.Request {
	var all []reconcile.Request
	for name := range flowSchemas {
		all = append(all, kit.Request("", name))
	}
	return all
}

// schemasOfBinding maps the RoleBinding of a consumer to all FlowSchemas.
func schemasOfBinding(_ context.Context, binding client.Object) []reconcile.Request {
	if binding.GetName() != naming.TenantRole {
		return nil
	}
	return allSchemas()
}

// Reconcile writes the ServiceAccounts of all consumers to one FlowSchema. It does not create the
// FlowSchema, which an administrator may have deleted.
func (r *Reconciler) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	var bindings rbacv1.RoleBindingList
	if err := r.Client.List(ctx, &bindings); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing role bindings: %w", err)
	}
	var schema flowcontrolv1.FlowSchema
	err := r.Live.Get(ctx, key.NamespacedName, &schema)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading FlowSchema %s: %w", key.Name, err)
	}
	wanted := rulesFor(accountsOf(bindings.Items), flowSchemas[key.Name])
	if equality.Semantic.DeepEqual(schema.Spec.Rules, wanted) {
		return ctrl.Result{}, nil
	}
	schema.Spec.Rules = wanted
	if err := r.Client.Update(ctx, &schema); err != nil {
		return kit.Result(0, fmt.Errorf("writing the accounts of consumers into FlowSchema %s: %w", key.Name, err))
	}
	return ctrl.Result{}, nil
}

// accountsOf returns the ServiceAccounts in the RoleBindings of tenants, sorted and without duplicates.
func accountsOf(bindings []rbacv1.RoleBinding) []flowcontrolv1.Subject {
	var accounts []flowcontrolv1.Subject
	for i := range bindings {
		binding := &bindings[i]
		if binding.Name != naming.TenantRole || binding.DeletionTimestamp != nil {
			continue
		}
		for _, subject := range binding.Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind {
				accounts = append(accounts, flowcontrolv1.Subject{
					Kind:           flowcontrolv1.SubjectKindServiceAccount,
					ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: subject.Namespace, Name: subject.Name},
				})
			}
		}
	}
	key := func(s flowcontrolv1.Subject) string { return s.ServiceAccount.Namespace + "/" + s.ServiceAccount.Name }
	slices.SortFunc(accounts, func(a, b flowcontrolv1.Subject) int { return strings.Compare(key(a), key(b)) })
	return slices.CompactFunc(accounts, func(a, b flowcontrolv1.Subject) bool { return key(a) == key(b) })
}

// rulesFor returns the rules that match requests of accounts with verbs; none if accounts is empty. They match
// requests for non-resource paths, too, if verbs contains VerbAll.
func rulesFor(accounts []flowcontrolv1.Subject, verbs []string) []flowcontrolv1.PolicyRulesWithSubjects {
	if len(accounts) == 0 {
		return nil
	}
	rules := flowcontrolv1.PolicyRulesWithSubjects{
		Subjects: accounts,
		ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
			Verbs: verbs, APIGroups: []string{flowcontrolv1.APIGroupAll}, Resources: []string{flowcontrolv1.ResourceAll},
			Namespaces: []string{flowcontrolv1.NamespaceEvery}, ClusterScope: true,
		}},
	}
	if slices.Contains(verbs, flowcontrolv1.VerbAll) {
		rules.NonResourceRules = []flowcontrolv1.NonResourcePolicyRule{
			{Verbs: verbs, NonResourceURLs: []string{flowcontrolv1.NonResourceAll}},
		}
	}
	return []flowcontrolv1.PolicyRulesWithSubjects{rules}
}
