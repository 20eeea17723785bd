// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/test/integration/framework"
)

const controllerManager = "federation-controller-manager"

// NoEscalateBind: policies restrict the roles that the controllers may bind to the namespaces and
// subjects of peers.
func TestNoEscalateBind(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	tenant := makeNamespaceOf(t, env, tenantOf("lucca"), v1alpha1.RoleTenant, "lucca")
	peer := makeNamespaceOf(t, env, peerOf("lucca"), v1alpha1.RolePeer, "lucca")
	remote := makeNamespaceOf(t, env, "remote-of-lucca", v1alpha1.RoleRemoteNamespace, "lucca")
	plain, offloaded := env.MakeNamespace(t), env.MakeNamespace(t)
	must(t)(env.Kube.CoreV1().Namespaces().Patch(t.Context(), offloaded, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"liqo.io/scheduling-enabled":"true"}}}`), metav1.PatchOptions{}))
	must(t)(federationOf(t, env.Admin).FederationV1alpha1().NamespaceOffloadings(offloaded).Create(t.Context(),
		&v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceOffloadingName}},
		metav1.CreateOptions{}))
	rbac := kubeOf(t, env.ServiceAccount(t, framework.Namespace, controllerManager)).RbacV1()
	for namespace, role := range map[string]string{plain: "federation-remote-namespace",
		remote: "federation-remote-namespace", offloaded: "federation-remote-namespace"} {
		must(t)(env.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), bindingOf(role, userSubject("someone")),
			metav1.CreateOptions{}))
	}
	for _, role := range []string{"federation-reflection", "federation-export-manager"} {
		must(t)(env.Kube.RbacV1().RoleBindings(plain).Create(t.Context(), bindingOf(role, userSubject("someone")),
			metav1.CreateOptions{}))
	}
	bindEverywhere(t, env, "innocent", "view", userSubject("someone"))

	own := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: controllerManager, Namespace: framework.Namespace}
	bearerSubject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "invitation-x",
		Namespace: framework.InvitationNamespace}
	kubelet := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "federation-virtual-kubelet-lucca", Namespace: peer}
	bind := func(namespace, role string, subject rbacv1.Subject) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := rbac.RoleBindings(namespace).Create(ctx, bindingOf(role, subject), dryCreate)
			return err
		}
	}
	bindAll := func(role string, subject rbacv1.Subject) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := rbac.ClusterRoleBindings().Create(ctx, clusterBindingOf("new", role, subject), dryCreate)
			return err
		}
	}
	bindAddresses := func(subject rbacv1.Subject) func(context.Context) error {
		return func(ctx context.Context) error {
			binding := bindingOf("federation-addresses", subject)
			binding.RoleRef.Kind = "Role"
			_, err := rbac.RoleBindings(framework.Namespace).Update(ctx, binding,
				metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	expect(t, []attempt{
		{"a tenant's role for its user", "", bind(tenant, "federation-tenant", userSubject("milan"))},
		{"a tenant's role for its account", "", bind(tenant, "federation-tenant", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "identity", Namespace: tenant})},
		{"a tenant's role for the bearer of an invitation", "identities of peers", bind(tenant, "federation-tenant", bearerSubject)},
		{"a tenant's role for all authenticated users", "identities of peers", bind(tenant, "federation-tenant", rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:authenticated"})},
		{"a tenant's role for a user of the system", "identities of peers", bind(tenant, "federation-tenant", userSubject("system:kube-scheduler"))},
		{"the tokens of a tenant for the bearer of its invitation", "", bind(tenant, "federation-tenant-token", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "invitation-milan", Namespace: framework.InvitationNamespace})},
		{"the tokens of a tenant for another account of the namespace", "identities of peers", bind(tenant, "federation-tenant-token", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: framework.InvitationNamespace})},
		{"a tenant's role for the bearer of an invitation", "identities of peers", bind(tenant, "federation-tenant", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "invitation-milan", Namespace: framework.InvitationNamespace})},
		{"its own role in a tenant's namespace", "", bind(tenant, "federation-tenant-manager", own)},
		{"a tenant's role in a namespace of a user", "in tenant, peer, remote and offloaded", bind(plain, "federation-tenant", userSubject("milan"))},
		{"its own role in a peer namespace", "", bind(peer, "federation-peer-manager", own)},
		{"its own role in a namespace of a user", "in tenant, peer, remote and offloaded", bind(metav1.NamespaceSystem, "federation-peer-manager", own)},
		{"its own role of peers in a remote namespace", "in a namespace of this type", bind(remote, "federation-peer-manager", own)},
		{"its own role for a peer", "to its own account", bind(peer, "federation-peer-manager", userSubject("milan"))},
		{"its own role in a remote namespace", "", bind(remote, "federation-remote-namespace-manager", own)},
		{"no binding in a namespace of a user", "in tenant, peer, remote and offloaded",
			func(ctx context.Context) error {
				return rbac.RoleBindings(plain).Delete(ctx, "federation-remote-namespace", dryDelete)
			}},
		{"no binding in a remote namespace", "", func(ctx context.Context) error {
			return rbac.RoleBindings(remote).Delete(ctx, "federation-remote-namespace", dryDelete)
		}},
		{"reflection in an offloaded namespace", "", bind(offloaded, "federation-reflection", kubelet)},
		{"reflection in other namespaces", "in tenant, peer, remote and offloaded", bind(plain, "federation-reflection", kubelet)},
		{"reflection in kube-system", "in tenant, peer, remote and offloaded", bind(metav1.NamespaceSystem, "federation-reflection", kubelet)},
		{"reflection for a user", "accounts of virtual kubelets", bind(offloaded, "federation-reflection", userSubject("someone"))},
		{"reflection for itself", "accounts of virtual kubelets", bind(offloaded, "federation-reflection", own)},
		{"addresses for a virtual kubelet", "", bindAddresses(kubelet)},
		{"addresses for a user", "accounts of virtual kubelets", bindAddresses(userSubject("someone"))},
		{"reflection in the installation namespace", "in a namespace of this type", bind(framework.Namespace, "federation-reflection", kubelet)},
		{"exports of an offloaded namespace", "", bind(offloaded, "federation-export-manager", own)},
		{"exports of other namespaces", "in tenant, peer, remote and offloaded", bind(plain, "federation-export-manager", own)},
		{"exports of a remote namespace", "in a namespace of this type", bind(remote, "federation-export-manager", own)},
		{"exports for a user", "to its own account", bind(offloaded, "federation-export-manager", userSubject("someone"))},
		{"a tenant's role in an offloaded namespace", "in a namespace of this type", bind(offloaded, "federation-tenant", userSubject("milan"))},
		{"reflection in a remote namespace", "in a namespace of this type", bind(remote, "federation-reflection", kubelet)},
		{"the deletion of its role for exports", "", func(ctx context.Context) error {
			return rbac.RoleBindings(plain).Delete(ctx, "federation-export-manager", dryDelete)
		}},
		{"the deletion of a binding for reflection", "", func(ctx context.Context) error {
			return rbac.RoleBindings(plain).Delete(ctx, "federation-reflection", dryDelete)
		}},
		{"no other binding of an offloaded namespace", "in a namespace of this type", func(ctx context.Context) error {
			return rbac.RoleBindings(offloaded).Delete(ctx, "federation-remote-namespace", dryDelete)
		}},
		{"a virtual kubelet", "", bindAll("federation-virtual-kubelet", kubelet)},
		{"the role of a virtual kubelet for a user", "accounts of virtual kubelets", bindAll("federation-virtual-kubelet", userSubject("someone"))},
		{"a tenant's role everywhere", "of federation-virtual-kubelet only", bindAll("federation-tenant", userSubject("milan"))},
		{"its own role everywhere", "of federation-virtual-kubelet only", bindAll("federation-peer-manager", own)},
		{"the deletion of another binding", "of federation-virtual-kubelet only", func(ctx context.Context) error {
			return rbac.ClusterRoleBindings().Delete(ctx, "innocent", dryDelete)
		}},
	})
	// The role of the controllers allows to bind only certain roles.
	if err := bindAll("cluster-admin", own)(t.Context()); err == nil {
		t.Error("the controller manager made itself an administrator")
	}
}

func userSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

func bindingOf(role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func clusterBindingOf(name, role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func TestPoliciesKeepTheControllerManagerToObjectsOfTheFederation(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	remote := makeNamespaceOf(t, env, "remote-of-pisa", v1alpha1.RoleRemoteNamespace, "pisa")
	plain := env.MakeNamespace(t)
	env.ServiceAccount(t, plain, "default")
	makeNode(t, env, "liqo-pisa", v1alpha1.TypeVirtualNode)
	makeNode(t, env, "worker-of-pisa", "")
	ordinary := onNode(t, env, plain, "ordinary", "worker-of-pisa")
	daemon := onNode(t, env, plain, "daemon", "worker-of-pisa", corev1.Toleration{Operator: corev1.TolerationOpExists})
	offloaded := onNode(t, env, plain, "offloaded", "liqo-pisa")
	shadowed := onNode(t, env, remote, "shadowed", "worker-of-pisa")
	shop := env.MakeNamespace(t)
	env.ServiceAccount(t, shop, "default")
	misplaced := onNode(t, env, shop, "misplaced", "worker-of-pisa")
	// The namespace is labelled only here, because the webhook would place the pods that were
	// created above.
	must(t)(env.Kube.CoreV1().Namespaces().Patch(t.Context(), shop, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"liqo.io/scheduling-enabled":"true"}}}`), metav1.PatchOptions{}))
	core := kubeOf(t, env.ServiceAccount(t, framework.Namespace, controllerManager)).CoreV1()

	deletePod := func(namespace, name string) func(context.Context) error {
		return func(ctx context.Context) error { return core.Pods(namespace).Delete(ctx, name, dryDelete) }
	}
	evict := func(namespace, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return core.Pods(namespace).EvictV1(ctx,
				&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, DeleteOptions: &dryDelete})
		}
	}
	patchNode := func(name, patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := core.Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), dryPatch)
			return err
		}
	}
	patchNamespace := func(name, patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := core.Namespaces().Patch(ctx, name, types.MergePatchType, []byte(patch), dryPatch)
			return err
		}
	}
	makeNamespace := func(name, role, security string, more ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			labels := map[string]string{v1alpha1.LabelRole: role, "pod-security.kubernetes.io/enforce": security}
			for _, label := range more {
				labels[label] = "v1.30"
			}
			_, err := core.Namespaces().Create(ctx,
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, dryCreate)
			return err
		}
	}
	const onVirtualNodes, virtual, evicted = "only pods on virtual nodes", "only virtual nodes",
		"only pods of offloaded namespaces and in remote namespaces"
	expect(t, []attempt{
		{"deletes a pod of a user", onVirtualNodes, deletePod(plain, ordinary)},
		{"deletes a pod that tolerates everything", onVirtualNodes, deletePod(plain, daemon)},
		{"deletes a pod on a virtual node", "", deletePod(plain, offloaded)},
		{"deletes a pod in a remote namespace", "", deletePod(remote, shadowed)},
		{"evicts a pod of an offloaded namespace", "", evict(shop, misplaced)},
		{"evicts a pod of a namespace that is not", evicted, evict(plain, ordinary)},
		{"evicts a pod of such a namespace on a virtual node", evicted, evict(plain, offloaded)},
		{"evicts a pod in a remote namespace", "", evict(remote, shadowed)},
		{"evicts a pod of the system", evicted, evict(metav1.NamespaceSystem, "coredns")},
		{"cordons a node", virtual, patchNode("worker-of-pisa", `{"spec":{"unschedulable":true}}`)},
		{"makes a node virtual", virtual, patchNode("worker-of-pisa", `{"metadata":{"labels":{"liqo.io/type":"virtual-node"}}}`)},
		{"removes the type of a virtual node", virtual, patchNode("liqo-pisa", `{"metadata":{"labels":{"liqo.io/type":null}}}`)},
		{"deletes a node", virtual, func(ctx context.Context) error { return core.Nodes().Delete(ctx, "worker-of-pisa", dryDelete) }},
		{"cordons a virtual node", "", patchNode("liqo-pisa", `{"spec":{"unschedulable":true}}`)},
		{"deletes a virtual node", "", func(ctx context.Context) error { return core.Nodes().Delete(ctx, "liqo-pisa", dryDelete) }},
		{"offloads a namespace", "", patchNamespace(plain, `{"metadata":{"labels":{"liqo.io/scheduling-enabled":"true"}}}`)},
		{"offloads the system's namespace", "namespace of the system or of a peering", patchNamespace(metav1.NamespaceSystem, `{"metadata":{"labels":{"liqo.io/scheduling-enabled":"true"}}}`)},
		{"offloads a remote namespace", "namespace of the system or of a peering", patchNamespace(remote, `{"metadata":{"labels":{"liqo.io/scheduling-enabled":"true"}}}`)},
		{"annotates an offloaded namespace with accounts", "", patchNamespace(shop, `{"metadata":{"annotations":{"offloading.liqo.io/accounts":"a"}}}`)},
		{"annotates a remote namespace with classes", "", patchNamespace(remote, `{"metadata":{"annotations":{"federation.liqo.io/ingress-classes":"a,b"}}}`)},
		{"annotates a remote namespace with what its consumer may do", "", patchNamespace(remote, `{"metadata":{"annotations":{"federation.liqo.io/external-names":"*.example.com","federation.liqo.io/network-access":"Isolated","federation.liqo.io/max-object-bytes":"131072","federation.liqo.io/metadata-keys":""}}}`)},
		{"annotates a remote namespace with accounts", "only annotation offloading.liqo.io/accounts", patchNamespace(remote, `{"metadata":{"annotations":{"offloading.liqo.io/accounts":"a"}}}`)},
		{"annotates another namespace with classes", "only annotation offloading.liqo.io/accounts", patchNamespace(shop, `{"metadata":{"annotations":{"federation.liqo.io/load-balancer-classes":"a"}}}`)},
		{"sets other annotations of a namespace", "only annotation offloading.liqo.io/accounts", patchNamespace(shop, `{"metadata":{"annotations":{"scheduler.alpha.kubernetes.io/node-selector":"a=b"}}}`)},
		{"sets an owner of a namespace that does not exist", "owners and finalizers",
			patchNamespace(plain,
				`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"gone","uid":"gone"}]}}`)},
		{"sets a finalizer of a namespace", "owners and finalizers", patchNamespace(plain, `{"metadata":{"finalizers":["example.org/never"]}}`)},
		{"makes the system's namespace a remote namespace", "only label liqo.io/scheduling-enabled", patchNamespace(metav1.NamespaceSystem, `{"metadata":{"labels":{"federation.liqo.io/role":"twin"}}}`)},
		{"relaxes Pod Security in a namespace", "only label liqo.io/scheduling-enabled", patchNamespace(plain, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`)},
		{"removes the role of a remote namespace", "only label liqo.io/scheduling-enabled", patchNamespace(remote, `{"metadata":{"labels":{"federation.liqo.io/role":null}}}`)},
		{"makes a namespace of no role", "only tenant, peer and remote namespaces", makeNamespace("new", "", "restricted")},
		{"makes a remote namespace with the name of a tenant's", "must match its label", makeNamespace("liqo-tenant-new", v1alpha1.RoleRemoteNamespace, "baseline")},
		{"makes a tenant namespace of any name", "must match its label", makeNamespace("new", v1alpha1.RoleTenant, "restricted")},
		{"makes a remote namespace", "", makeNamespace("new", v1alpha1.RoleRemoteNamespace, "baseline")},
		{"makes a remote namespace for privileged pods", "with its Pod Security Standard", makeNamespace("new", v1alpha1.RoleRemoteNamespace, "privileged")},
		{"makes a remote namespace of another version", "with its Pod Security Standard", makeNamespace("new", v1alpha1.RoleRemoteNamespace, "baseline", "pod-security.kubernetes.io/enforce-version")},
		{"makes a remote namespace that a webhook does not check", "without labels except",
			makeNamespace("new", v1alpha1.RoleRemoteNamespace, "baseline", "admission.gatekeeper.sh/ignore")},
		{"makes a remote namespace with all labels of the controllers", "",
			makeNamespace("new", v1alpha1.RoleRemoteNamespace, "baseline", v1alpha1.LabelForeignCluster,
				v1alpha1.LabelOrigin, v1alpha1.LabelDestination, v1alpha1.LabelManagedBy)},
		{"makes an offloaded remote namespace", "with its Pod Security Standard", makeNamespace("new", v1alpha1.RoleRemoteNamespace, "baseline", v1alpha1.LabelSchedulingEnabled)},
		{"makes a tenant namespace", "", makeNamespace("liqo-tenant-new", v1alpha1.RoleTenant, "restricted")},
		{"makes a tenant namespace with a lower standard", "with its Pod Security Standard", makeNamespace("liqo-tenant-new", v1alpha1.RoleTenant, "baseline")},
		{"deletes a namespace of a user", "only tenant, peer and remote namespaces", func(ctx context.Context) error { return core.Namespaces().Delete(ctx, plain, dryDelete) }},
		{"deletes a remote namespace", "", func(ctx context.Context) error { return core.Namespaces().Delete(ctx, remote, dryDelete) }},
	})
}

func makeNode(t *testing.T, env *framework.Environment, name, kind string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if kind != "" {
		node.Labels = map[string]string{v1alpha1.LabelType: kind}
	}
	must(t)(env.Kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}))
	undo(t, func(ctx context.Context) error {
		return env.Kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	})
}

func TestPoliciesKeepAVirtualKubeletToItsOwnNode(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	peer := makeNamespaceOf(t, env, peerOf("prato"), v1alpha1.RolePeer, "prato")
	other := makeNamespaceOf(t, env, peerOf("pistoia"), v1alpha1.RolePeer, "pistoia")
	plain := env.MakeNamespace(t)
	env.ServiceAccount(t, plain, "default")
	makeNode(t, env, "liqo-prato", v1alpha1.TypeVirtualNode)
	makeNode(t, env, "liqo-pistoia", v1alpha1.TypeVirtualNode)
	makeNode(t, env, "worker-of-prato", "")
	ordinary := onNode(t, env, plain, "ordinary", "worker-of-prato")
	offloaded := onNode(t, env, plain, "offloaded", "liqo-prato")
	elsewhere := onNode(t, env, plain, "elsewhere", "liqo-pistoia")
	const name = "federation-virtual-kubelet-prato"
	kube := kubeOf(t, env.ServiceAccount(t, peer, name))
	bindEverywhere(t, env, "federation-"+name, "federation-virtual-kubelet",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: peer})

	core := kube.CoreV1()
	// The Node of this account does not exist yet.
	const second = "federation-virtual-kubelet-prato-2"
	nodes := kubeOf(t, env.ServiceAccount(t, peer, second)).CoreV1().Nodes()
	bindEverywhere(t, env, "federation-"+second, "federation-virtual-kubelet",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: second, Namespace: peer})
	status := func(node string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := core.Nodes().Patch(ctx, node, types.MergePatchType,
				[]byte(`{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.9"}]}}`), dryPatch, "status")
			return err
		}
	}
	node := func(name string, labels map[string]string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, dryCreate)
			return err
		}
	}
	podStatus := func(pod string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := core.Pods(plain).Patch(ctx, pod, types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`),
				dryPatch, "status")
			return err
		}
	}
	lease := func(namespace, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kube.CoordinationV1().Leases(namespace).Create(ctx,
				&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, dryCreate)
			return err
		}
	}
	deletePod := func(name string) func(context.Context) error {
		return func(ctx context.Context) error { return core.Pods(plain).Delete(ctx, name, dryDelete) }
	}
	leases := env.Kube.CoordinationV1().Leases(metav1.NamespaceSystem)
	must(t)(leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "kube-scheduler"}},
		metav1.CreateOptions{}))
	undo(t, func(ctx context.Context) error { return leases.Delete(ctx, "kube-scheduler", metav1.DeleteOptions{}) })
	virtual := map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode}
	const virtualNodes, onVirtualNodes, ownNode, ownPods, ownLeases = "only virtual nodes", "only pods on virtual nodes",
		"its own Node only", "on its own Node only", "the Lease of its own Node and its own Lease only"
	expect(t, []attempt{
		{"makes its virtual node", "", node("liqo-prato-2", virtual)},
		{"makes the virtual node of another", ownNode, node("liqo-prato-3", virtual)},
		{"makes another node", virtualNodes, node("liqo-prato-2", nil)},
		{"updates the status of its virtual node", "", status("liqo-prato")},
		{"updates the status of another virtual node", ownNode, status("liqo-pistoia")},
		{"updates the status of another node", virtualNodes, status("worker-of-prato")},
		{"updates the status of a pod of its virtual node", "", podStatus(offloaded)},
		{"updates the status of a pod of another virtual node", ownPods, podStatus(elsewhere)},
		{"updates the status of another pod", onVirtualNodes, podStatus(ordinary)},
		{"deletes a pod of its virtual node", "", deletePod(offloaded)},
		{"deletes a pod of another virtual node", ownPods, deletePod(elsewhere)},
		{"deletes another pod", onVirtualNodes, deletePod(ordinary)},
		{"renews the lease of its node", "", lease(corev1.NamespaceNodeLease, "liqo-prato")},
		{"renews the lease of another virtual node", ownLeases, lease(corev1.NamespaceNodeLease, "liqo-pistoia")},
		{"renews the lease of another node", ownLeases, lease(corev1.NamespaceNodeLease, "worker-of-prato")},
		{"renews its own lease", "", lease(peer, name)},
		{"takes the lease of another virtual kubelet of its provider", ownLeases, lease(peer, second)},
		{"takes the lease of another virtual kubelet", ownLeases, lease(other, name)},
		{"takes a lease of another namespace", ownLeases, lease(metav1.NamespaceSystem, "liqo-prato")},
		{"takes the scheduler's lease", ownLeases, func(ctx context.Context) error {
			held, err := kube.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, "kube-scheduler", metav1.GetOptions{})
			if err == nil {
				held.Spec.HolderIdentity = &held.Name
				_, err = kube.CoordinationV1().Leases(metav1.NamespaceSystem).Update(ctx, held, dryUpdate)
			}
			return err
		}},
	})
}

func TestPoliciesKeepTheIdentitySignerToItsOwnRequests(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	request := func(name string, groups ...string) *certificatesv1.CertificateSigningRequest {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{Subject: pkix.Name{CommonName: "mallory", Organization: groups}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
				SignerName: certificatesv1.KubeAPIServerClientSignerName,
				Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			}}
	}
	signer := kubeOf(t, env.ServiceAccount(t, framework.Namespace,
		"federation-identity-signer")).CertificatesV1().CertificateSigningRequests()
	others, err := env.Kube.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request("others"),
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := retry(t, func() (*certificatesv1.CertificateSigningRequest, error) {
		return signer.Create(t.Context(), request("own"), metav1.CreateOptions{})
	})
	for _, csr := range []*certificatesv1.CertificateSigningRequest{others, own} {
		undo(t, func(ctx context.Context) error {
			return env.Kube.CertificatesV1().CertificateSigningRequests().Delete(ctx, csr.Name, metav1.DeleteOptions{})
		})
	}
	approve := func(csr *certificatesv1.CertificateSigningRequest) func(context.Context) error {
		return func(ctx context.Context) error {
			approved := csr.DeepCopy()
			approved.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "Approved.",
			}}
			_, err := signer.UpdateApproval(ctx, approved.Name, approved, dryUpdate)
			return err
		}
	}
	server := request("server")
	server.Spec.SignerName = certificatesv1.KubeletServingSignerName
	expect(t, []attempt{
		{"approves its own request", "", approve(own)},
		{"approves a request of others", "its own requests only", approve(others)},
		{"deletes a request of others", "its own requests only", func(ctx context.Context) error { return signer.Delete(ctx, "others", dryDelete) }},
		{"deletes its own request", "", func(ctx context.Context) error { return signer.Delete(ctx, "own", dryDelete) }},
		{"requests a serving certificate", "client certificates only", func(ctx context.Context) error {
			_, err := signer.Create(ctx, server, dryCreate)
			return err
		}},
	})
	// kube-apiserver itself refuses the group that has all permissions.
	_, err = signer.Create(t.Context(), request("masters", "system:masters"), dryCreate)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:masters") {
		t.Errorf("a certificate of the group system:masters: got %v, want Forbidden", err)
	}
}

func TestPoliciesKeepTheQueuesOfPeersForPeers(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	installFairness(t, env)
	schemas := kubeOf(t, env.ServiceAccount(t, framework.Namespace, controllerManager)).FlowcontrolV1().FlowSchemas()
	change := func(change func(*flowcontrolv1.FlowSchemaSpec)) func(context.Context) error {
		return func(ctx context.Context) error {
			schema, err := schemas.Get(ctx, "federation-peer-accounts", metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(&schema.Spec)
			_, err = schemas.Update(ctx, schema, dryUpdate)
			return err
		}
	}
	names := func(subject flowcontrolv1.Subject) func(*flowcontrolv1.FlowSchemaSpec) {
		return func(spec *flowcontrolv1.FlowSchemaSpec) {
			spec.Rules = []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         []flowcontrolv1.Subject{subject},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}},
			}}
		}
	}
	expect(t, []attempt{
		{"an account of a tenant", "", change(names(flowcontrolv1.Subject{Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: "liqo-tenant-rome", Name: "federation-peer"}}))},
		{"another account", "accounts of tenant namespaces only", change(names(flowcontrolv1.Subject{Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: "kube-system", Name: "*"}}))},
		{"all authenticated users", "accounts of tenant namespaces only", change(names(flowcontrolv1.Subject{Kind: "Group", Group: &flowcontrolv1.GroupSubject{Name: "system:authenticated"}}))},
		{"the exempt priority level", "priority level and precedence", change(func(spec *flowcontrolv1.FlowSchemaSpec) { spec.PriorityLevelConfiguration.Name = "exempt" })},
		{"before all other requests", "priority level and precedence", change(func(spec *flowcontrolv1.FlowSchemaSpec) { spec.MatchingPrecedence = 2 })},
	})
}

// A stolen account of the controllers must become no other account, and get no privileges on nodes.
func TestPoliciesKeepStolenAccountsFromOthers(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	remote := makeNamespaceOf(t, env, "remote-of-siena", v1alpha1.RoleRemoteNamespace, "siena")
	peer := makeNamespaceOf(t, env, peerOf("siena"), v1alpha1.RolePeer, "siena")
	for _, policy := range strings.Split(env.Chart(t, "rbac-storage-consumer.yaml"), "\n---\n") {
		if strings.Contains(policy, "\n  name: federation-csidrivers\n") {
			env.Kubectl(t, policy, "apply", "-f", "-")
		}
	}
	bindEverywhere(t, env, "stolen-controller-manager", "cluster-admin",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: controllerManager, Namespace: framework.Namespace})
	bindEverywhere(t, env, "stolen-apiserver", "cluster-admin",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "federation-apiserver", Namespace: framework.Namespace})
	bindEverywhere(t, env, "stolen-gateway", "cluster-admin",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: v1alpha1.GatewayName, Namespace: framework.Namespace})
	manager := kubeOf(t, env.ServiceAccount(t, framework.Namespace, controllerManager))
	apiserver := kubeOf(t, env.ServiceAccount(t, framework.Namespace, "federation-apiserver"))
	gateway := kubeOf(t, env.ServiceAccount(t, framework.Namespace, v1alpha1.GatewayName))

	secret := func(kube kubernetes.Interface, kind corev1.SecretType) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kube.CoreV1().Secrets(framework.Namespace).Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "new", Annotations: map[string]string{
					corev1.ServiceAccountNameKey: "federation-identity-signer",
				}},
				Type: kind, Data: map[string][]byte{"tls.crt": nil, "tls.key": nil},
			}, dryCreate)
			return err
		}
	}
	keys := func(namespace, name string, kind corev1.SecretType) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := gateway.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
					corev1.ServiceAccountNameKey: "federation-identity-signer",
				}},
				Type: kind,
			}, dryCreate)
			return err
		}
	}
	publicKey := func(namespace, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := gateway.CoreV1().ConfigMaps(namespace).Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, dryCreate)
			return err
		}
	}
	newPod := func(name string, change func(*corev1.PodSpec)) *corev1.Pod {
		spec := corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			Containers:                   []corev1.Container{{Name: "main", Image: "example.com/shop"}},
		}
		change(&spec)
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	}
	pod := func(namespace string, change func(*corev1.PodSpec)) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := manager.CoreV1().Pods(namespace).Create(ctx, newPod("new", change), dryCreate)
			return err
		}
	}
	volume := func(source corev1.VolumeSource) func(*corev1.PodSpec) {
		return func(spec *corev1.PodSpec) { spec.Volumes = []corev1.Volume{{Name: "new", VolumeSource: source}} }
	}
	projected := func(source corev1.VolumeProjection) func(*corev1.PodSpec) {
		sources := []corev1.VolumeProjection{source}
		return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}})
	}
	token := func(audience string) func(*corev1.PodSpec) {
		return projected(corev1.VolumeProjection{
			ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: audience},
		})
	}
	privileged := func(spec *corev1.PodSpec) {
		spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	}
	as := func(*corev1.PodSpec) {}
	env.ServiceAccount(t, remote, "operator")
	// The provider created these pods.
	for name, change := range map[string]func(*corev1.PodSpec){"ordinary": as, "privileged": privileged,
		"with-token": token("")} {
		must(t)(env.Kube.CoreV1().Pods(remote).Create(t.Context(), newPod(name, change), metav1.CreateOptions{}))
	}
	image := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := manager.CoreV1().Pods(remote).Patch(ctx, name, types.JSONPatchType,
				[]byte(`[{"op":"replace","path":"/spec/containers/0/image","value":"busybox"}]`), dryPatch)
			return err
		}
	}
	addContainer := func(name string, security *corev1.SecurityContext) func(context.Context) error {
		return func(ctx context.Context) error {
			found, err := manager.CoreV1().Pods(remote).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			common := corev1.EphemeralContainerCommon{Name: "shell", Image: "busybox", SecurityContext: security,
				TerminationMessagePolicy: corev1.TerminationMessageReadFile}
			found.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: common}}
			_, err = manager.CoreV1().Pods(remote).UpdateEphemeralContainers(ctx, name, found, dryUpdate)
			return err
		}
	}
	deployment := func(namespace string, change func(*corev1.PodSpec)) func(context.Context) error {
		return func(ctx context.Context) error {
			labels := map[string]string{"app": "new"}
			template := corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					ServiceAccountName: "federation-virtual-kubelet-siena",
					Containers: []corev1.Container{{
						Name: "federation-virtual-kubelet", Image: "liqo.io/federation-virtual-kubelet:" + compatibility.Version,
					}},
				},
			}
			change(&template.Spec)
			_, err := manager.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: "federation-virtual-kubelet-siena"},
				Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
			}, dryCreate)
			return err
		}
	}
	projectedSecret := func(name string) func(*corev1.PodSpec) {
		return projected(corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: name},
		}})
	}
	variable := func(spec *corev1.PodSpec) {
		spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "password"}, Key: "a",
			},
		}}}
	}
	root := volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})
	const ofGateway = "the Secret with its keys and the ConfigMap with its public key only"
	const secretTypes, node, tokens, kubelets, mounted = "only Secrets of the types", "must not have access to its node",
		"must not have a token", "only Deployments of virtual kubelets", "must mount its identity only"
	expect(t, append(bindAttempts(t, env, manager, remote, peer), []attempt{
		{"the controllers store an identity", "", secret(manager, v1alpha1.SecretTypeIdentity)},
		{"the controllers store keys of the gateway", secretTypes, secret(manager, v1alpha1.SecretTypeWireGuard)},
		{"the controllers store a certificate of a mover", "", secret(manager, corev1.SecretTypeTLS)},
		{"the controllers request a token of another account", secretTypes, secret(manager, corev1.SecretTypeServiceAccountToken)},
		{"the controllers store a bootstrap token", secretTypes, secret(manager, corev1.SecretTypeBootstrapToken)},
		{"the controllers store any Secret", secretTypes, secret(manager, corev1.SecretTypeOpaque)},
		{"the API server stores an invitation", "", secret(apiserver, v1alpha1.SecretTypeInvitation)},
		{"the API server requests a token of another account", secretTypes, secret(apiserver, corev1.SecretTypeServiceAccountToken)},
		{"the API server stores an identity", secretTypes, secret(apiserver, v1alpha1.SecretTypeIdentity)},
		{"the gateway stores its keys", "", keys(framework.Namespace, v1alpha1.WireGuardSecret, v1alpha1.SecretTypeWireGuard)},
		{"the gateway requests a token of another account", ofGateway, keys(framework.Namespace, v1alpha1.WireGuardSecret, corev1.SecretTypeServiceAccountToken)},
		{"the gateway stores a Secret with another name", ofGateway, keys(framework.Namespace, "new", v1alpha1.SecretTypeWireGuard)},
		{"the gateway stores a Secret in another namespace", ofGateway, keys(remote, v1alpha1.WireGuardSecret, v1alpha1.SecretTypeWireGuard)},
		{"the gateway publishes its public key", "", publicKey(framework.Namespace, v1alpha1.WireGuardConfigMap)},
		{"the gateway stores another ConfigMap", ofGateway, publicKey(framework.Namespace, "new")},
		{"the gateway stores a ConfigMap in another namespace", ofGateway, publicKey(remote, v1alpha1.WireGuardConfigMap)},
		{"the controllers create a pod of a consumer", "", pod(remote, as)},
		{"the controllers create a pod with a token of a mesh", "", pod(remote, token("mesh"))},
		{"the controllers create a pod with a token", tokens, pod(remote, token(""))},
		{"the controllers create a pod with the token of its account", tokens, pod(remote, func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = nil })},
		{"the controllers create a pod in the network of its node", node, pod(remote, func(s *corev1.PodSpec) { s.HostNetwork = true })},
		{"the controllers create a pod with the processes of its node", node, pod(remote, func(s *corev1.PodSpec) { s.HostPID = true })},
		{"the controllers create a privileged pod", node, pod(remote, privileged)},
		{"the controllers create a pod that may mount", node, pod(remote, func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{
				Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}},
			}
		})},
		{"the controllers create a pod of another account", "must have the account default", pod(remote, func(s *corev1.PodSpec) { s.ServiceAccountName = "operator" })},
		{"the controllers create a privileged initContainer", node, pod(remote, func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "init", Image: "a",
				SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}}
		})},
		{"the controllers create a pod with a port of its node", node, pod(remote, func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		})},
		{"the controllers create a pod with files of its node", node, pod(remote, root)},
		{"the controllers change a pod", "", image("ordinary")},
		{"the controllers change a privileged pod", node, image("privileged")},
		{"the controllers change a pod with a token", tokens, image("with-token")},
		{"the controllers add a container", "", addContainer("ordinary", nil)},
		{"the controllers add a privileged container", node, addContainer("ordinary", &corev1.SecurityContext{Privileged: ptr.To(true)})},
		{"the controllers add a container to a pod with a token", tokens, addContainer("with-token", nil)},
		{"the controllers deploy a virtual kubelet", "", deployment(peer, as)},
		{"the controllers deploy a virtual kubelet elsewhere", kubelets, deployment(remote, as)},
		{"the controllers deploy another image", kubelets, deployment(peer, func(s *corev1.PodSpec) { s.Containers[0].Image = "busybox" })},
		{"the controllers deploy another command", kubelets, deployment(peer, func(s *corev1.PodSpec) { s.Containers[0].Command = []string{"sh"} })},
		{"the controllers deploy another account", kubelets, deployment(peer, func(s *corev1.PodSpec) { s.ServiceAccountName = "default" })},
		{"the controllers deploy the account of another virtual kubelet", kubelets, deployment(peer, func(s *corev1.PodSpec) {
			s.ServiceAccountName = "federation-virtual-kubelet-siena-2"
		})},
		{"the controllers deploy a privileged virtual kubelet", node, deployment(peer, privileged)},
		{"the controllers deploy a virtual kubelet in the network of its node", node, deployment(peer, func(s *corev1.PodSpec) { s.HostNetwork = true })},
		{"the controllers deploy a virtual kubelet with files of its node", node, deployment(peer, root)},
		{"the controllers deploy a virtual kubelet with its identity", "", deployment(peer, projectedSecret("identity"))},
		{"the controllers deploy a virtual kubelet with another Secret", mounted, deployment(peer, projectedSecret("password"))},
		{"the controllers deploy a virtual kubelet with another Secret in a variable", mounted, deployment(peer, variable)},
		{"the controllers create a CSIDriver that gets tokens", "only CSIDriver", func(ctx context.Context) error {
			_, err := manager.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
				ObjectMeta: metav1.ObjectMeta{Name: "csi.example.com"},
				Spec:       storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "any"}}},
			}, dryCreate)
			return err
		}},
	}...))
}

// bindAttempts returns an attempt for each role that the controller manager may bind and each kind of
// namespaces. They are refused except in the namespaces of the table bound. In those, roles of others
// are refused to the controller manager itself.
func bindAttempts(
	t *testing.T, env *framework.Environment, manager kubernetes.Interface, remote, peer string,
) (attempts []attempt) {
	t.Helper()
	namespaces := map[place]string{
		placeInstallation: framework.Namespace, placeInvitations: framework.InvitationNamespace,
		placeTenant: makeNamespaceOf(t, env, tenantOf("siena"), v1alpha1.RoleTenant, "siena"),
		placePeer:   peer, placeRemote: remote, placeKubeSystem: metav1.NamespaceSystem,
		placeOffloaded: env.MakeNamespace(t), placeLabelled: env.MakeNamespace(t), placeOther: env.MakeNamespace(t),
	}
	for _, p := range []place{placeOffloaded, placeLabelled} {
		must(t)(env.Kube.CoreV1().Namespaces().Patch(t.Context(), namespaces[p], types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"liqo.io/scheduling-enabled":"true"}}}`), metav1.PatchOptions{}))
	}
	must(t)(federationOf(t, env.Admin).FederationV1alpha1().NamespaceOffloadings(namespaces[placeOffloaded]).Create(
		t.Context(), &v1alpha1.NamespaceOffloading{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceOffloadingName},
		}, metav1.CreateOptions{}))
	subject := func(role, holder string) rbacv1.Subject {
		switch {
		case holder == controllerManager:
			return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: controllerManager, Namespace: framework.Namespace}
		case holder == peerAccount:
			return userSubject("siena")
		case role == "federation-virtual-kubelet-peer":
			return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + peer}
		}
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "federation-virtual-kubelet-siena", Namespace: peer}
	}
	bind := func(role string, p place, holder string) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			if p == placeAll {
				_, err = manager.RbacV1().ClusterRoleBindings().Create(ctx,
					clusterBindingOf("new", role, subject(role, holder)), dryCreate)
				return err
			}
			_, err = manager.RbacV1().RoleBindings(namespaces[p]).Create(ctx, bindingOf(role, subject(role, holder)), dryCreate)
			return err
		}
	}
	const refused = "denied request"
	_, grants := chartGrants(t, env)
	for _, role := range grants.in(controllerManager, placeAll).binds() {
		i := slices.IndexFunc(bound, func(b binding) bool { return b.role == role })
		if i < 0 {
			t.Fatalf("the controllers bind %s, of which no holder is known", role)
		}
		for p := range namespaces {
			if p != bound[i].place {
				attempts = append(attempts, attempt{bindAttempt(role, p), refused, bind(role, p, bound[i].holder)})
			}
		}
		if bound[i].place != placeAll {
			attempts = append(attempts, attempt{bindAttempt(role, placeAll), refused, bind(role, placeAll, bound[i].holder)})
		}
		attempts = append(attempts,
			attempt{bindAttempt(role, bound[i].place), "", bind(role, bound[i].place, bound[i].holder)})
		if bound[i].holder != controllerManager {
			attempts = append(attempts, attempt{bindAttempt(role, bound[i].place) + " to themselves", refused,
				bind(role, bound[i].place, controllerManager)})
		}
	}
	return attempts
}
