// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

// deleteNow deletes an object and removes its finalizers, because no controller does so in these tests.
func deleteNow(t *testing.T, path string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	client := admin(t).FederationV1alpha1().RESTClient()
	if err := client.Delete().AbsPath(path).Do(ctx).Error(); err != nil {
		t.Error(err)
	}
	if err := client.Patch(types.MergePatchType).AbsPath(path).Body([]byte(`{"metadata":{"finalizers":null}}`)).Do(
		ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func clusterPath(name string) string {
	return "/apis/federation.liqo.io/v1alpha1/foreignclusters/" + name
}

func offloadingPath(namespace string) string {
	return "/apis/federation.liqo.io/v1alpha1/namespaces/" + namespace + "/namespaceoffloadings/offloading"
}

func TestPeerVerbAndForeignClusterStoreTheSame(t *testing.T) {
	env := framework.Get(t)
	clusters := admin(t).FederationV1alpha1().ForeignClusters()
	for name, test := range map[string]struct{ shared fields }{
		"all that an invitation needs": {},
		"with resources":               {shared: fields{"resources": fields{"cpu": "2", "memory": "1Gi"}}},
		"with a deadline":              {shared: fields{"disconnectTimeoutSeconds": 60}},
		"without an id":                {shared: fields{"clusterID": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			shared := merge(fields{"clusterID": genoaID, "server": "https://rimini.example.org"}, test.shared)
			stored := func(act func()) v1alpha1.ForeignClusterSpec {
				act()
				cluster, err := clusters.Get(t.Context(), "rimini", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				finish(t, env, "rimini")
				deleteNow(t, clusterPath("rimini"))
				return cluster.Spec
			}
			byVerb := stored(func() {
				env.Kubectl(t, string(encode(fields{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "Peering",
					"spec": merge(shared, fields{"token": peerToken})})),
					"create", "--raw", peerPath("rimini"), "-f", "-")
			})
			bySpec := stored(func() {
				env.Kubectl(t, string(encode(fields{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "ForeignCluster",
					"metadata": fields{"name": "rimini"},
					"spec":     merge(shared, fields{"outgoing": "Enabled", "invitationSecretName": "invitation-rimini"})})),
					"apply", "--server-side", "-f", "-")
			})
			if diff := cmp.Diff(byVerb, bySpec); diff != "" {
				t.Errorf("the specs differ (-verb +object):\n%s", diff)
			}
		})
	}
}

func TestOffloadVerbAndNamespaceOffloadingStoreTheSame(t *testing.T) {
	env := framework.Get(t)
	selector := fields{"nodeSelectorTerms": []any{fields{"matchExpressions": []any{fields{"key": "region",
		"operator": "In", "values": []string{"north"}}}}}}
	for _, mapping := range []any{nil, "DefaultName", "EnforceSameName", "SelectedName"} {
		for _, pods := range []any{nil, "Local", "Remote", "LocalAndRemote"} {
			for _, clusters := range []any{nil, selector} {
				spec := fields{}
				for key, value := range (fields{"namespaceMappingStrategy": mapping, "podOffloadingStrategy": pods,
					"clusterSelector": clusters}) {
					if value != nil {
						spec[key] = value
					}
				}
				if mapping == "SelectedName" {
					spec["remoteNamespaceName"] = "bakery"
				}
				stored := func(act func(namespace string)) v1alpha1.NamespaceOffloadingSpec {
					namespace := env.MakeNamespace(t)
					act(namespace)
					offloading, err := admin(t).FederationV1alpha1().NamespaceOffloadings(namespace).Get(t.Context(), "offloading",
						metav1.GetOptions{})
					if err != nil {
						t.Fatal(err)
					}
					deleteNow(t, offloadingPath(namespace))
					return offloading.Spec
				}
				send := func(method func() error) {
					if err := method(); err != nil {
						t.Fatal(err)
					}
				}
				client := admin(t).FederationV1alpha1().RESTClient()
				byVerb := stored(func(namespace string) {
					send(func() error {
						return client.Post().AbsPath(offloadingPath(namespace)+"/offload").Body(
							encode(fields{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "Offload", "spec": spec})).
							SetHeader("Content-Type", "application/json").Do(t.Context()).Error()
					})
				})
				bySpec := stored(func(namespace string) {
					send(func() error {
						return client.Patch(types.ApplyPatchType).AbsPath(offloadingPath(namespace)).Param("fieldManager", "test").
							Body(encode(fields{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "NamespaceOffloading",
								"metadata": fields{"name": "offloading"}, "spec": spec})).Do(t.Context()).Error()
					})
				})
				if diff := cmp.Diff(byVerb, bySpec); diff != "" {
					t.Errorf("the specs of %v differ (-verb +object):\n%s", spec, diff)
				}
			}
		}
	}
}

func TestObjectsAreSelectedByTheirFields(t *testing.T) {
	env := framework.Get(t)
	client := admin(t).FederationV1alpha1()
	namespace := env.MakeNamespace(t)
	offers := client.ResourceOffers(namespace)
	const other = "11111111-2222-4333-8444-555555555555"
	watcher, err := offers.Watch(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Accepted"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for name, id := range map[string]string{"a": genoaID, "b": other, "c": genoaID} {
		body := fields{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "ResourceOffer", "metadata": fields{"name": name},
			"spec": fields{"clusterID": id, "resources": fields{"cpu": "1"}}}
		env.Kubectl(t, string(encode(body)), "create", "--namespace="+namespace, "-f", "-")
	}
	env.Kubectl(t, "", "patch", "resourceoffer", "c", "--namespace="+namespace, "--subresource=status", "--type=merge",
		"--patch", `{"status":{"phase":"Accepted"}}`)
	for selector, want := range map[string][]string{
		"spec.clusterID=" + genoaID:                          {"a", "c"},
		"spec.clusterID!=" + genoaID:                         {"b"},
		"status.phase=Accepted":                              {"c"},
		"status.phase!=Accepted,spec.clusterID=" + genoaID:   {"a"},
		"metadata.name=b":                                    {"b"},
		"metadata.name=b,spec.clusterID=" + genoaID:          nil,
		"metadata.namespace=" + namespace + ",status.phase=": {"a", "b"},
	} {
		list, err := offers.List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			t.Errorf("%s: %v", selector, err)
			continue
		}
		var got []string
		for _, offer := range list.Items {
			got = append(got, offer.Name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s selects other objects (-want +got):\n%s", selector, diff)
		}
	}
	if event := <-watcher.ResultChan(); event.Type != watch.Added || event.Object.(*v1alpha1.ResourceOffer).Name != "c" {
		t.Errorf("the first event is %s %v", event.Type, event.Object)
	}
	_, err = offers.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.labels=x"})
	if err == nil || !strings.Contains(err.Error(), "spec.clusterID") {
		t.Errorf("an unknown field is answered with %v", err)
	}
}

func TestKubectlWorksAsOnBuiltInKinds(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	scope := "--namespace=" + namespace
	env.Kubectl(t, offloadingManifest, "apply", scope, "-f", "-")
	defer deleteNow(t, offloadingPath(namespace))
	env.Kubectl(t, "", "wait", "nsof/offloading", scope, "--for=jsonpath={.spec.podOffloadingStrategy}=Remote",
		"--timeout=10s")
	env.Kubectl(t, "", "patch", "nsof", "offloading", scope, "--subresource=status", "--type=merge", "--patch",
		`{"status":{"phase":"Ready"}}`)
	env.Kubectl(t, "", "wait", "nsof/offloading", scope, "--for=jsonpath={.status.phase}=Ready", "--timeout=10s")
	if output := env.Kubectl(t, "", "get", "nsof", scope, "--field-selector=status.phase=Ready", "-o",
		"wide"); !strings.Contains(output, "offloading") {
		t.Errorf("kubectl prints\n%s", output)
	}
	for i := range 5 {
		env.Kubectl(t, `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"ResourceRequest","metadata":{"name":"r`+string(
			rune('0'+i))+`"}}`, "create", scope, "-f", "-")
	}
	if output := env.Kubectl(t, "", "get", "rr", scope, "--chunk-size=2",
		"--no-headers"); strings.Count(output, "\n") != 5 {
		t.Errorf("kubectl prints\n%s", output)
	}
	if output := env.Kubectl(t, "", "get", "rr", scope, "--watch", "--request-timeout=2s"); strings.Count(output,
		"Pending") != 5 {
		t.Errorf("kubectl prints\n%s", output)
	}
	for _, kind := range []string{"foreignclusters", "namespaceoffloadings", "virtualnodes", "resourceoffers",
		"resourcerequests", "peeringtokens", "identityrequests", "namespacemaps", "shadowpods", "shadowvolumeclaims",
		"shadowendpointslices", "addresspools", "addressmappings", "networkconfigs", "tunnelendpoints"} {
		output := env.Kubectl(t, "", "explain", kind, "--recursive")
		if !strings.Contains(output, "spec") || !strings.Contains(output, "FIELDS:") {
			t.Errorf("kubectl explain %s:\n%s", kind, output)
		}
	}

	env.Kubectl(t,
		`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"ForeignCluster","metadata":{"name":"udine"},`+
			`"spec":{"server":"https://udine.example.org"}}`, "apply", "--server-side", "-f", "-")
	defer deleteNow(t, clusterPath("udine"))
	env.Kubectl(t, "", "patch", "fc", "udine", "--subresource=peer", "--type=merge", "--patch",
		`{"spec":{"disconnectTimeoutSeconds":60}}`)
	env.Kubectl(t, "", "patch", "fc", "udine", "--subresource=status", "--type=merge", "--patch",
		`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Done","message":"",`+
			`"lastTransitionTime":"2026-11-21T08:00:00Z"}]}}`)
	env.Kubectl(t, "", "wait", "fc/udine", "--for=condition=Ready", "--timeout=10s")
	if output := env.Kubectl(t, "", "get", "fc", "udine", "--subresource=peer", "-o", "wide"); !strings.Contains(output,
		"https://udine.example.org") {
		t.Errorf("kubectl prints\n%s", output)
	}
}

func TestUnlikelyValuesAreWarnedOf(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	offload := "/apis/federation.liqo.io/v1alpha1/namespaces/" + namespace + "/namespaceoffloadings/offloading/offload"
	for name, test := range map[string]struct {
		body string
		args []string
		want []string
	}{
		"an address without a bundle, no id, and a day to unpeer": {
			`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"ForeignCluster","metadata":{"name":"terni"},` +
				`"spec":{"outgoing":"Enabled","server":"https://192.0.2.1:6443","disconnectTimeoutSeconds":86400}}`,
			[]string{"apply", "--dry-run=server", "-f", "-"},
			[]string{"spec.clusterID", "spec.caBundle", "spec.disconnectTimeoutSeconds"},
		},
		"the same through the verb": {
			`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Peering","spec":{"token":"t",` +
				`"server":"https://192.0.2.1:6443"}}`,
			[]string{"create", "--raw", peerPath("terni") + "?dryRun=All", "-f", "-"},
			[]string{"spec.clusterID", "spec.caBundle"},
		},
		"a selector that matches nothing": {
			`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Offload",` +
				`"spec":{"clusterSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"region","operator":"In",` +
				`"values":["moon"]}]}]}}}`,
			[]string{"create", "--raw", offload + "?dryRun=All", "-f", "-"}, []string{"spec.clusterSelector"},
		},
		"a cluster as an invitation describes it": {
			`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Peering","spec":{"token":"t",` +
				`"server":"https://terni.example.org","clusterID":"` + genoaID + `"}}`,
			[]string{"create", "--raw", peerPath("terni") + "?dryRun=All", "-f", "-"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			output := env.Kubectl(t, test.body, test.args...)
			if strings.Count(output, "Warning: ") != len(test.want) {
				t.Errorf("kubectl has other warnings:\n%s", output)
			}
			for _, field := range test.want {
				if !strings.Contains(output, "Warning: "+field+":") {
					t.Errorf("kubectl does not warn of %s:\n%s", field, output)
				}
			}
		})
	}
}
