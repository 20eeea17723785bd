// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/queue"
)

// accountsFlowSchemas are the FlowSchemas of the chart for consumers that are
// known by tokens, with the verbs that each is for. Certificates carry a group
// that other ones name; accounts have to be named one by one.
var accountsFlowSchemas = map[string][]string{
	"liqo-peer-account-lists": {"list", "watch"},
	"liqo-peer-accounts":      {flowcontrolv1.VerbAll},
}

// fairness has the requests of consumers that are accounts wait in the queues
// of peers.
type fairness struct {
	bindings func() ([]*rbacv1.RoleBinding, error)
	get      func(ctx context.Context, name string) (*flowcontrolv1.FlowSchema, error)
	update   func(ctx context.Context, schema *flowcontrolv1.FlowSchema) error
}

// NewFairness makes the controller that names the accounts of consumers in the
// chart's FlowSchemas.
func NewFairness(config *Config) (*queue.Controller[cache.ObjectName], error) {
	bindings := config.ManagedInformers.Rbac().V1().RoleBindings()
	schemas := config.Kube.FlowcontrolV1().FlowSchemas()
	f := &fairness{
		bindings: func() ([]*rbacv1.RoleBinding, error) { return bindings.Lister().List(labels.Everything()) },
		get: func(ctx context.Context, name string) (*flowcontrolv1.FlowSchema, error) {
			return schemas.Get(ctx, name, getOptions)
		},
		update: func(ctx context.Context, schema *flowcontrolv1.FlowSchema) error {
			_, err := schemas.Update(ctx, schema, updateOptions)
			return err
		},
	}
	var all []cache.ObjectName
	for name := range accountsFlowSchemas {
		all = append(all, cache.ObjectName{Name: name})
	}
	controller := queue.New("peer-fairness", 1, f.reconcile)
	_, err := bindings.Informer().AddEventHandler(controller.Handle(func(object any) []cache.ObjectName {
		if binding, ok := object.(*rbacv1.RoleBinding); !ok || binding.Name != naming.TenantRole {
			return nil
		}
		return all
	}))
	if err != nil {
		return nil, fmt.Errorf("watch for the fairness of peers: %w", err)
	}
	// The last consumer may have gone while nobody looked.
	for _, key := range all {
		controller.Add(key)
	}
	return controller, nil
}

func (f *fairness) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	bindings, err := f.bindings()
	if err != nil {
		return 0, err
	}
	schema, err := f.get(ctx, key.Name)
	if apierrors.IsNotFound(err) {
		// Whoever removed it shares requests out in another way.
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read FlowSchema %s: %w", key.Name, err)
	}
	wanted := rulesFor(accountsOf(bindings), accountsFlowSchemas[key.Name])
	if equality.Semantic.DeepEqual(schema.Spec.Rules, wanted) {
		return 0, nil
	}
	changed := schema.DeepCopy()
	changed.Spec.Rules = wanted
	if err := f.update(ctx, changed); err != nil {
		return 0, fmt.Errorf("name the accounts of consumers in FlowSchema %s: %w", key.Name, err)
	}
	return 0, nil
}

// accountsOf are the accounts that are tenants, each once and in order.
func accountsOf(bindings []*rbacv1.RoleBinding) []flowcontrolv1.Subject {
	var accounts []flowcontrolv1.Subject
	for _, binding := range bindings {
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

// rulesFor are the requests of some accounts with these verbs; none match
// without any account. What is no resource is only asked for with all verbs.
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
		rules.NonResourceRules = []flowcontrolv1.NonResourcePolicyRule{{Verbs: verbs, NonResourceURLs: []string{flowcontrolv1.NonResourceAll}}}
	}
	return []flowcontrolv1.PolicyRulesWithSubjects{rules}
}
