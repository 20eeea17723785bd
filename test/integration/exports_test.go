// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	mcscrd "sigs.k8s.io/mcs-api/config/crd"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	mcs "sigs.k8s.io/mcs-api/pkg/client/clientset/versioned"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/link/serviceexport"
	servedapi "liqo.io/federation/controllers/mcs"
	"liqo.io/federation/test/integration/framework"
)

// exports is an exported Service with a local and a remote endpoint.
type exports struct {
	*endpointsOfWeb
	mcs   mcs.Interface
	clock *testingclock.FakeClock
	// copied is the reflected Service in the remote namespace.
	copied *corev1.Service
}

// The controllers have the permissions of the chart. A ServiceExport in an offloaded namespace
// causes a ServiceImport in that namespace and one in its remote namespace, as soon as the
// Multi-Cluster Services API is served.
func TestAServiceExportIsImportedOnBothSides(t *testing.T) {
	env := framework.Get(t)
	installRoles(t, env)
	client, err := mcs.NewForConfig(env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	e := &exports{endpointsOfWeb: &endpointsOfWeb{offload: newOffload(t)}, mcs: client,
		clock: testingclock.NewFakeClock(time.Now())}
	e.createPeering(t)
	e.offloadNamespace(t)
	e.runController(t)
	e.runExports(t)
	e.makeWeb(t)
	defineExports(t, env)
	e.start(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"an export without a Service reports it", e.testNoService},
		{"it is imported on both clusters", e.testImport},
		{"drift and deletion are repaired", e.testDrift},
		{"with a network it has endpoints of both clusters", e.testReach},
		{"an import of another owner is not changed", e.testTaken},
		{"a deleted export is not imported", e.testUnexport},
		{"an unoffloaded Service is not imported", e.testUnoffload},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

// defineExports installs the Multi-Cluster Services API until the test ends.
func defineExports(t *testing.T, env *framework.Environment) {
	t.Helper()
	define(t, env, string(mcscrd.ServiceExportCRD), mcsv1alpha1.ServiceExportFullName)
	define(t, env, string(mcscrd.ServiceImportCRD), mcsv1alpha1.ServiceImportFullName)
}

// offloadNamespace creates the objects of an offloaded namespace, and binds the controller's role
// in the remote namespace, as the controllers of offloading do.
func (e *exports) offloadNamespace(t *testing.T) {
	t.Helper()
	must(t)(e.Kube.CoreV1().Namespaces().Patch(t.Context(), e.local, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, v1alpha1.LabelSchedulingEnabled), metav1.PatchOptions{}))
	offloading := &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceOffloadingName}}
	must(t)(e.federation.FederationV1alpha1().NamespaceOffloadings(e.local).Create(t.Context(), offloading,
		metav1.CreateOptions{}))
	must(t)(e.Kube.RbacV1().RoleBindings(e.remote).Create(t.Context(), bindingOf("federation-remote-namespace-manager",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: controllerManager, Namespace: framework.Namespace}),
		metav1.CreateOptions{}))
}

// runExports runs the controller of exports with the account and the permissions of the chart.
func (e *exports) runExports(t *testing.T) {
	t.Helper()
	config := e.ServiceAccount(t, framework.Namespace, controllerManager)
	kube := kubeOf(t, config)
	runManager(t, config, func(manager ctrl.Manager) error {
		return (&serviceexport.Reconciler{
			Client: manager.GetClient(), Live: manager.GetAPIReader(), Kube: kube, Events: record.NewFakeRecorder(100),
			Served: servedapi.NewServed(kube.Discovery(), e.clock,
				mcsv1alpha1.ServiceExportPluralName, mcsv1alpha1.ServiceImportPluralName),
			ClusterName: framework.ClusterName,
			Account:     types.NamespacedName{Namespace: framework.Namespace, Name: controllerManager},
		}).SetupWithManager(manager)
	})
}

// makeWeb creates a local and an offloaded endpoint of the Service web.
func (e *exports) makeWeb(t *testing.T) {
	t.Helper()
	must(t)(e.Kube.DiscoveryV1().EndpointSlices(e.local).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "web-abcde", Labels: map[string]string{
			discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.81.0.1"}, NodeName: ptr.To("rome-worker"),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}, metav1.CreateOptions{}))
	// An EndpointSlice in the remote namespace with the remote endpoint.
	must(t)(e.Kube.DiscoveryV1().EndpointSlices(e.remote).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "web-fghij", Labels: map[string]string{
			discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.82.0.1"},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}, metav1.CreateOptions{}))
}

func (e *exports) export(t *testing.T) {
	t.Helper()
	must(t)(e.mcs.MulticlusterV1alpha1().ServiceExports(e.local).Create(t.Context(),
		&mcsv1alpha1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}))
}

// awaitStanding waits until the conditions of the ServiceExport have these values, each as "status
// reason".
func (e *exports) awaitStanding(t *testing.T, want map[mcsv1alpha1.ServiceExportConditionType]string) {
	t.Helper()
	until(t, fmt.Sprintf("the export stands at %v", want), func(ctx context.Context) (bool, error) {
		// The controller refreshes discovery once a minute.
		e.clock.Step(time.Minute)
		found, err := e.mcs.MulticlusterV1alpha1().ServiceExports(e.local).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for of, standing := range want {
			c := meta.FindStatusCondition(found.Status.Conditions, string(of))
			if c == nil || string(c.Status)+" "+c.Reason != standing {
				return false, nil
			}
		}
		return true, nil
	})
}

// await waits until a namespace has a ServiceImport of exactly these clusters and EndpointSlices
// with exactly these endpoints, each as "cluster address". It returns the ServiceImport.
func (e *exports) await(t *testing.T, namespace string, clusters []string,
	endpoints ...string) (found *mcsv1alpha1.ServiceImport) {
	t.Helper()
	var seen string
	defer func() {
		if t.Failed() {
			t.Logf("found %s", seen)
		}
	}()
	until(t, fmt.Sprintf("%s imports from %v: %v", namespace, clusters, endpoints),
		func(ctx context.Context) (bool, error) {
			var err error
			if found, err = e.mcs.MulticlusterV1alpha1().ServiceImports(namespace).Get(ctx, "web",
				metav1.GetOptions{}); err != nil {
				return false, ignoreNotFound(err)
			}
			var are, has []string
			for _, cluster := range found.Status.Clusters {
				are = append(are, cluster.Cluster)
			}
			list, err := e.Kube.DiscoveryV1().EndpointSlices(namespace).List(ctx,
				metav1.ListOptions{LabelSelector: mcsv1alpha1.LabelServiceName + "=web"})
			if err != nil {
				return false, err
			}
			for _, slice := range list.Items {
				if slice.OwnerReferences[0].UID != found.UID || slice.Labels[discoveryv1.LabelServiceName] != "" {
					return false, nil
				}
				for _, endpoint := range slice.Endpoints {
					has = append(has, slice.Labels[mcsv1alpha1.LabelSourceCluster]+" "+endpoint.Addresses[0])
				}
			}
			slices.Sort(has)
			slices.Sort(are)
			slices.Sort(clusters)
			slices.Sort(endpoints)
			seen = fmt.Sprintf("%v: %v", are, has)
			return slices.Equal(are, clusters) && slices.Equal(has, endpoints) &&
				found.Status.EndpointSliceObjects == mcsv1alpha1.EndpointSliceObjectsPresent, nil
		})
	return found
}

// awaitNone waits until a namespace has no ServiceImports.
func (e *exports) awaitNone(t *testing.T, namespace string) {
	t.Helper()
	until(t, "nothing is imported in "+namespace, func(ctx context.Context) (bool, error) {
		list, err := e.Kube.DiscoveryV1().EndpointSlices(namespace).List(ctx,
			metav1.ListOptions{LabelSelector: mcsv1alpha1.LabelServiceName})
		if err != nil || len(list.Items) > 0 {
			return false, err
		}
		_, err = e.mcs.MulticlusterV1alpha1().ServiceImports(namespace).Get(ctx, "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
}

func (e *exports) testNoService(t *testing.T) {
	e.export(t)
	e.awaitStanding(t, map[mcsv1alpha1.ServiceExportConditionType]string{"Valid": "False NoService",
		"Ready": "False Pending"})
}

func (e *exports) testImport(t *testing.T) {
	local, err := e.Kube.CoreV1().Services(e.local).Create(t.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.awaitStanding(t, map[mcsv1alpha1.ServiceExportConditionType]string{"Valid": "True Valid", "Ready": "True Exported",
		"Conflict": "False NoConflicts"})
	localImport := e.await(t, e.local, []string{framework.ClusterName}, framework.ClusterName+" 10.81.0.1")
	// Without a network, the other cluster's endpoints are not imported. A later step establishes
	// the network.
	e.established(t, false)
	remoteImport := e.await(t, e.remote, []string{framework.ClusterName}, framework.ClusterName+" 10.82.0.1")
	if e.copied, err = e.Kube.CoreV1().Services(e.remote).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, side := range []struct {
		found   *mcsv1alpha1.ServiceImport
		service *corev1.Service
	}{{localImport, local}, {remoteImport, e.copied}} {
		spec := side.found.Spec
		if spec.Type != mcsv1alpha1.ClusterSetIP || !slices.Equal(spec.IPs, side.service.Spec.ClusterIPs) ||
			len(spec.Ports) != 1 || spec.Ports[0].Port != 80 || spec.Ports[0].Name != "http" {
			t.Errorf("imported as %+v of %+v", spec, side.service.Spec)
		}
	}
}

// established sets the networking phase of the ForeignCluster on the provider to Established, or to
// None.
func (e *exports) established(t *testing.T, is bool) {
	t.Helper()
	phase := v1alpha1.PeeringNone
	if is {
		phase = v1alpha1.PeeringEstablished
	}
	must(t)(e.federation.FederationV1alpha1().ForeignClusters().Patch(t.Context(), e.tenant, types.MergePatchType,
		fmt.Appendf(nil, `{"status":{"networking":%q}}`, phase), metav1.PatchOptions{}, "status"))
}

func (e *exports) testDrift(t *testing.T) {
	for _, namespace := range []string{e.local, e.remote} {
		imports := e.mcs.MulticlusterV1alpha1().ServiceImports(namespace)
		first, err := imports.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"ips":["192.0.2.1"]}}`),
			metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the address of the Service is restored", func(ctx context.Context) (bool, error) {
			now, err := imports.Get(ctx, "web", metav1.GetOptions{})
			return err == nil && now.Spec.IPs[0] != "192.0.2.1", err
		})
		if err := imports.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, "it is created again", func(ctx context.Context) (bool, error) {
			now, err := imports.Get(ctx, "web", metav1.GetOptions{})
			return err == nil && now.UID != first.UID, ignoreNotFound(err)
		})
		list, err := e.Kube.DiscoveryV1().EndpointSlices(namespace).List(t.Context(),
			metav1.ListOptions{LabelSelector: mcsv1alpha1.LabelServiceName + "=web"})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%d slices, %v", len(list.Items), err)
		}
		if err := e.Kube.DiscoveryV1().EndpointSlices(namespace).Delete(t.Context(), list.Items[0].Name,
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	e.await(t, e.local, []string{framework.ClusterName}, framework.ClusterName+" 10.81.0.1")
	e.await(t, e.remote, []string{framework.ClusterName}, framework.ClusterName+" 10.82.0.1")
}

func (e *exports) testReach(t *testing.T) {
	e.setNetworkReady(t, metav1.ConditionTrue)
	e.established(t, true)
	e.await(t, e.remote, []string{framework.ClusterName, e.tenant}, framework.ClusterName+" 10.82.0.1",
		e.tenant+" 10.81.0.1")
	e.established(t, false)
	e.await(t, e.remote, []string{framework.ClusterName}, framework.ClusterName+" 10.82.0.1")
}

func (e *exports) testTaken(t *testing.T) {
	must(t)(e.mcs.MulticlusterV1alpha1().ServiceImports(e.local).Create(t.Context(), &mcsv1alpha1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Name: "taken"},
		Spec:       mcsv1alpha1.ServiceImportSpec{Type: mcsv1alpha1.Headless, Ports: []mcsv1alpha1.ServicePort{}},
	}, metav1.CreateOptions{}))
	must(t)(e.Kube.CoreV1().Services(e.local).Create(t.Context(), service("taken", nil), metav1.CreateOptions{}))
	exports := e.mcs.MulticlusterV1alpha1().ServiceExports(e.local)
	must(t)(exports.Create(t.Context(), &mcsv1alpha1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "taken"}},
		metav1.CreateOptions{}))
	until(t, "the export reports the conflict", func(ctx context.Context) (bool, error) {
		found, err := exports.Get(ctx, "taken", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(found.Status.Conditions, string(mcsv1alpha1.ServiceExportConditionReady))
		return c != nil && c.Reason == string(mcsv1alpha1.ServiceExportReasonFailed) &&
			strings.Contains(c.Message, "was not created for the export"), nil
	})
	if err := exports.Delete(t.Context(), "taken", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the provider has an event", func(ctx context.Context) (bool, error) {
		copied, err := e.Kube.CoreV1().Services(e.remote).Get(ctx, "taken", metav1.GetOptions{})
		return err == nil && copied.Labels[v1alpha1.LabelExported] == "", ignoreNotFound(err)
	})
	if _, err := e.mcs.MulticlusterV1alpha1().ServiceImports(e.local).Get(t.Context(), "taken",
		metav1.GetOptions{}); err != nil {
		t.Errorf("it was changed: %v", err)
	}
}

func (e *exports) testUnexport(t *testing.T) {
	if err := e.mcs.MulticlusterV1alpha1().ServiceExports(e.local).Delete(t.Context(), "web",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitNone(t, e.local)
	e.awaitNone(t, e.remote)
	e.awaitGone(t, "the right to write in "+e.local+" is gone", func(ctx context.Context) error {
		_, err := e.Kube.RbacV1().RoleBindings(e.local).Get(ctx, "federation-export-manager", metav1.GetOptions{})
		return err
	})
}

func (e *exports) testUnoffload(t *testing.T) {
	e.export(t)
	e.await(t, e.local, []string{framework.ClusterName}, framework.ClusterName+" 10.81.0.1")
	if err := e.federation.FederationV1alpha1().NamespaceOffloadings(e.local).Delete(t.Context(),
		v1alpha1.NamespaceOffloadingName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitNone(t, e.local)
	e.awaitStanding(t, map[mcsv1alpha1.ServiceExportConditionType]string{"Valid": "True Valid",
		"Ready": "False NotOffloaded"})
}

// awaitGone waits until get returns that an object is not found.
func (e *exports) awaitGone(t *testing.T, what string, get func(context.Context) error) {
	t.Helper()
	e.offload.awaitGone(t, what, get)
}

// A peer with more permissions than those of the chart must not be able to import or export. The
// account of the controller manager must not be able to write endpoints outside of remote
// namespaces.
func TestPoliciesKeepImportsToTheProvider(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	defineExports(t, env)
	remote := makeNamespaceOf(t, env, "remote-of-imports", v1alpha1.RoleRemoteNamespace, "siena")
	offloaded := env.MakeNamespace(t)
	const user = "peer-of-imports"
	everything := rbacv1.PolicyRule{APIGroups: []string{mcsv1alpha1.GroupName}, Verbs: []string{"create"},
		Resources: []string{"serviceimports", "serviceexports"}}
	env.Grant(t, user, remote, everything)
	client, err := mcs.NewForConfig(env.User(t, user, v1alpha1.PeerGroup))
	if err != nil {
		t.Fatal(err)
	}
	manager := account(framework.Namespace, controllerManager)
	env.Grant(t, manager, offloaded,
		rbacv1.PolicyRule{APIGroups: []string{"discovery.k8s.io"}, Verbs: []string{"create", "delete"},
			Resources: []string{"endpointslices"}})
	slices := kubeOf(t, env.ServiceAccount(t, framework.Namespace, controllerManager)).DiscoveryV1().EndpointSlices(
		offloaded)
	must(t)(env.Kube.DiscoveryV1().EndpointSlices(offloaded).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "existing", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{},
	}, metav1.CreateOptions{}))
	slice := func(labels map[string]string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := slices.Create(ctx, &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: labels}, AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []discoveryv1.Endpoint{},
			}, dryCreate)
			return err
		}
	}
	labels := map[string]string{discoveryv1.LabelManagedBy: v1alpha1.ManagedBy, mcsv1alpha1.LabelServiceName: "web"}
	expect(t, []attempt{
		{"a peer imports", "must not write ServiceExports", func(ctx context.Context) error {
			_, err := client.MulticlusterV1alpha1().ServiceImports(remote).Create(ctx, &mcsv1alpha1.ServiceImport{
				ObjectMeta: metav1.ObjectMeta{Name: "web"},
				Spec: mcsv1alpha1.ServiceImportSpec{Type: mcsv1alpha1.ClusterSetIP, IPs: []string{"10.96.0.1"},
					Ports: []mcsv1alpha1.ServicePort{}},
			}, dryCreate)
			return err
		}},
		{"a peer exports", "must not write ServiceExports", func(ctx context.Context) error {
			_, err := client.MulticlusterV1alpha1().ServiceExports(remote).Create(ctx,
				&mcsv1alpha1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, dryCreate)
			return err
		}},
		{"the controller manager imports", "", slice(labels)},
		{"it creates a slice of a Service", "only EndpointSlices of ServiceImports", slice(map[string]string{mcsv1alpha1.LabelServiceName: "web"})},
		{"it creates endpoints of a Service", "only Service federation-gateway may get endpoints", slice(map[string]string{
			discoveryv1.LabelManagedBy: v1alpha1.ManagedBy, mcsv1alpha1.LabelServiceName: "web",
			discoveryv1.LabelServiceName: "web",
		})},
		{"it deletes endpoints of a Service", "only EndpointSlices of ServiceImports", func(ctx context.Context) error { return slices.Delete(ctx, "existing", dryDelete) }},
	})
}
