// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	mcscrd "sigs.k8s.io/mcs-api/config/crd"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	mcs "sigs.k8s.io/mcs-api/pkg/client/clientset/versioned"
	"sigs.k8s.io/yaml"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// servesExports installs the Multi-Cluster Services API, which is not in the chart. It runs before
// the product is installed. It does not use kubectl, whose discovery cache would then not have the
// product's API.
func servesExports(ctx context.Context, c *harness.Cluster) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	for _, text := range [][]byte{mcscrd.ServiceExportCRD, mcscrd.ServiceImportCRD} {
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &definition.Object); err != nil {
			return err
		}
		if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	// kube-apiserver creates an APIService for each version of a custom resource. Snapshots that
	// are taken later have to include them.
	services := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1",
		Resource: "apiservices"})
	return harness.Eventually(ctx, soon, c.Name+" to serve exports and imports",
		func(ctx context.Context) (bool, string, error) {
			for _, version := range []string{"v1alpha1", "v1beta1"} {
				if _, err := services.Get(ctx, version+"."+mcsv1alpha1.GroupName, metav1.GetOptions{}); err != nil {
					return false, "", err
				}
				list, err := c.Kube.Discovery().ServerResourcesForGroupVersion(mcsv1alpha1.GroupName + "/" + version)
				if err != nil {
					return false, "", err
				}
				for _, name := range []string{mcsv1alpha1.ServiceExportPluralName, mcsv1alpha1.ServiceImportPluralName} {
					if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name }) {
						return false, show(list), nil
					}
				}
			}
			return true, "", nil
		})
}

// exported is an exported Service with a local and an offloaded pod. remotePod is the remote pod on
// milan.
type exported struct {
	offload
	localPod, offloadedPod, remotePod caller
}

// exportsWeb exports the Service web with the manifest of artifacts/samples.
func exportsWeb(t *testing.T) exported {
	t.Helper()
	e := exported{offload: offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})}
	e.localPod = partOf(t, e.offload, "local", corev1.NodeSelectorOpDoesNotExist)
	e.offloadedPod = partOf(t, e.offload, "offloaded", corev1.NodeSelectorOpExists)
	e.remotePod = caller{milan, podReady(t, milan, e.remote, "offloaded")}
	runsThePage(t, rome, "reflection.md#exported-services", "-n demo", "-n "+e.namespace)
	return e
}

// exportsServices exports a Service. Both clusters import it with a ClusterIP of their own until
// the export is deleted. Without a network, each import has only the endpoints of its own cluster.
func exportsServices(t *testing.T) {
	e := exportsWeb(t)
	for _, side := range []struct {
		caller
		namespace string
	}{{e.localPod, e.namespace}, {e.remotePod, e.remote}} {
		imported := isImported(t, side.cluster, side.namespace, side.cluster.Name+" "+side.pod.Status.PodIP)
		service := must(side.cluster.Kube.CoreV1().Services(side.namespace).Get(t.Context(), "web", metav1.GetOptions{}))(t)
		want := mcsv1alpha1.ServiceImportSpec{
			Type: mcsv1alpha1.ClusterSetIP, IPs: service.Spec.ClusterIPs, IPFamilies: service.Spec.IPFamilies,
			SessionAffinity: service.Spec.SessionAffinity, InternalTrafficPolicy: service.Spec.InternalTrafficPolicy,
			Ports: []mcsv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		}
		if diff := cmp.Diff(want, imported.Spec); diff != "" {
			t.Errorf("import on %s (-want +got):\n%s", side.cluster.Name, diff)
		}
	}
	// Without a network, the offloaded pod has no address on rome, so it is no endpoint there.
	e.localPod.prints(t, "hello from local", "get", "http://web/")
	e.remotePod.prints(t, "hello from offloaded", "get", "http://web/")
	isExported(t, e.namespace)

	kubectl(t, rome, "delete", "serviceexport", "web", "-n", e.namespace)
	isNotImported(t, rome, e.namespace)
	isNotImported(t, milan, e.remote)
	must(milan.Kube.CoreV1().Services(e.remote).Get(t.Context(), "web", metav1.GetOptions{}))(t)
	e.remotePod.prints(t, "hello from offloaded", "get", "http://web/")
}

// exports exports a Service while there is a tunnel. Both clusters must import the endpoints of
// both, with addresses that are valid on the importing cluster.
func (f fabric) exports(t *testing.T) {
	e := exportsWeb(t)
	isImported(t, rome, e.namespace, "rome "+e.localPod.pod.Status.PodIP, "milan "+e.offloadedPod.pod.Status.PodIP)
	isImported(t, milan, e.remote, "milan "+e.remotePod.pod.Status.PodIP,
		"rome "+f.seenFrom(t, milan, e.localPod.pod.Status.PodIP))
	for _, from := range []caller{e.localPod, e.remotePod} {
		for _, want := range []string{"hello from local", "hello from offloaded"} {
			from.prints(t, want, "get", "http://web/")
		}
	}
}

// isExported waits until all conditions of the ServiceExport of the Service web report success.
func isExported(t *testing.T, namespace string) {
	t.Helper()
	client := must(mcs.NewForConfig(rome.Config))(t).MulticlusterV1alpha1().ServiceExports(namespace)
	want := map[mcsv1alpha1.ServiceExportConditionType]string{
		mcsv1alpha1.ServiceExportConditionValid:    "True Valid",
		mcsv1alpha1.ServiceExportConditionReady:    "True Exported",
		mcsv1alpha1.ServiceExportConditionConflict: "False NoConflicts",
	}
	eventually(t, soon, fmt.Sprintf("the export of web to be %v", want), func(ctx context.Context) (bool, string, error) {
		export, err := client.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		for of, standing := range want {
			c := meta.FindStatusCondition(export.Status.Conditions, string(of))
			if c == nil || string(c.Status)+" "+c.Reason != standing {
				return false, show(export.Status), nil
			}
		}
		return true, "", nil
	})
}

// isImported waits until a namespace imports the Service web from exactly the clusters of
// endpoints. endpoints are the only ready ones, each as "cluster address".
func isImported(t *testing.T, c *harness.Cluster, namespace string, endpoints ...string) *mcsv1alpha1.ServiceImport {
	t.Helper()
	slices.Sort(endpoints)
	var from []string
	for _, endpoint := range endpoints {
		cluster, _, _ := strings.Cut(endpoint, " ")
		from = append(from, cluster)
	}
	client := must(mcs.NewForConfig(c.Config))(t).MulticlusterV1alpha1().ServiceImports(namespace)
	var found *mcsv1alpha1.ServiceImport
	eventually(t, soon, fmt.Sprintf("%s to import web with %q", c.Name, endpoints),
		func(ctx context.Context) (bool, string, error) {
			var err error
			if found, err = client.Get(ctx, "web", metav1.GetOptions{}); err != nil {
				return false, "", err
			}
			list, err := slicesOfImport(ctx, c, namespace)
			if err != nil {
				return false, "", err
			}
			var clusters, has []string
			for _, cluster := range found.Status.Clusters {
				clusters = append(clusters, cluster.Cluster)
			}
			for _, slice := range list {
				for _, endpoint := range slice.Endpoints {
					if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
						has = append(has, slice.Labels[mcsv1alpha1.LabelSourceCluster]+" "+endpoint.Addresses[0])
					}
				}
			}
			slices.Sort(clusters)
			slices.Sort(has)
			return slices.Equal(clusters, from) && slices.Equal(has, endpoints), fmt.Sprintf("%q with %q", clusters, has), nil
		})
	return found
}

// isNotImported waits until a namespace has no ServiceImport and no EndpointSlice of one.
func isNotImported(t *testing.T, c *harness.Cluster, namespace string) {
	t.Helper()
	client := must(mcs.NewForConfig(c.Config))(t).MulticlusterV1alpha1().ServiceImports(namespace)
	eventually(t, soon, "nothing to be imported on "+c.Name, func(ctx context.Context) (bool, string, error) {
		if _, err := client.Get(ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return gone(err)
		}
		list, err := slicesOfImport(ctx, c, namespace)
		return err == nil && len(list) == 0, show(list), err
	})
}

// slicesOfImport returns the EndpointSlices that belong to the ServiceImport of the Service web.
func slicesOfImport(ctx context.Context, c *harness.Cluster, namespace string) ([]discoveryv1.EndpointSlice, error) {
	list, err := c.Kube.DiscoveryV1().EndpointSlices(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: mcsv1alpha1.LabelServiceName + "=web"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
