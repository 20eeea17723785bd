// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

// Even a peer with more permissions than those of the chart must not be able to use anything
// outside of its remote namespace.
func TestPoliciesKeepPeersWithinTheirRemoteNamespaces(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	define(t, env, widgetsDefinition, "widgets.example.com")
	env.Kubectl(t,
		env.ChartWith(t, []string{`policy.reflectedKinds=[{"group":"example.com","version":"v1","resource":"widgets"}]`},
			"policies-peers.yaml"), "apply", "-f", "-")
	remote := makeNamespaceOf(t, env, "remote-of-policies", v1alpha1.RoleRemoteNamespace, "siena")
	tenant := makeNamespaceOf(t, env, tenantOf("siena"), v1alpha1.RoleTenant, "siena")
	must(t)(env.Kube.CoreV1().Services(remote).Create(t.Context(), service("existing", func(s *corev1.ServiceSpec) {
		s.Type, s.LoadBalancerIP = corev1.ServiceTypeLoadBalancer, "192.0.2.8"
	}), metav1.CreateOptions{}))
	must(t)(env.Kube.NetworkingV1().Ingresses(remote).Create(t.Context(), ingressTo("existing"), metav1.CreateOptions{}))
	must(t)(env.Kube.CoreV1().ConfigMaps(remote).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "existing", Finalizers: []string{"example.org/cleans-up"}}},
		metav1.CreateOptions{}))
	onNode(t, env, remote, "existing", "somewhere")

	const name = "peer-of-policies"
	everything := rbacv1.PolicyRule{APIGroups: []string{"", "discovery.k8s.io", "networking.k8s.io", "example.com"},
		Verbs: []string{"get", "create", "update", "patch"}, Resources: []string{
			"configmaps", "widgets", "services", "services/status", "secrets", "endpoints", "endpointslices", "pods",
			"pods/ephemeralcontainers", "pods/resize", "pods/status", "pods/binding",
			"serviceaccounts", "serviceaccounts/token", "ingresses", "ingresses/status",
		}}
	for user, config := range map[string]*rest.Config{
		name:                        env.User(t, name, v1alpha1.PeerGroup),
		account(tenant, "identity"): env.ServiceAccount(t, tenant, "identity"),
	} {
		env.Grant(t, user, remote, everything)
		t.Run(user, func(t *testing.T) { peerAttempts(t, config, remote) })
	}
	t.Run("an account renews its own token", func(t *testing.T) {
		const name = "federation-peer"
		env.Grant(t, account(tenant, name), tenant,
			rbacv1.PolicyRule{APIGroups: []string{""}, Verbs: []string{"create"}, Resources: []string{"serviceaccounts/token"}})
		accounts := kubeOf(t, env.ServiceAccount(t, tenant, name)).CoreV1().ServiceAccounts(tenant)
		token := func(of string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := accounts.CreateToken(ctx, of, &authenticationv1.TokenRequest{}, dryCreate)
				return err
			}
		}
		expect(t, []attempt{{"its own", "", token(name)}, {"another's", "must not write ServiceAccounts", token("default")}})
	})
	t.Run("other users may", func(t *testing.T) {
		const user = "editor-of-policies"
		env.Grant(t, user, remote, everything)
		client := kubeOf(t, env.User(t, user)).CoreV1()
		expect(t, []attempt{{"write external addresses", "", func(ctx context.Context) error {
			_, err := client.Services(remote).Create(ctx,
				service("new", func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"192.0.2.9"} }), dryCreate)
			return err
		}}})
	})
}

// Classes that are not offered may be for internal services of the provider.
func TestPoliciesKeepPeersToTheClassesThatAreOffered(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	remote := makeNamespaceOf(t, env, "remote-of-classes", v1alpha1.RoleRemoteNamespace, "siena")
	const name = "peer-of-classes"
	env.Grant(t, name, remote, rbacv1.PolicyRule{APIGroups: []string{"", "networking.k8s.io"},
		Verbs: []string{"get", "create", "patch"}, Resources: []string{"services", "ingresses"}})
	kube := kubeOf(t, env.User(t, name, v1alpha1.PeerGroup))
	balanced := func(class *string) *corev1.Service {
		return service("new",
			func(s *corev1.ServiceSpec) { s.Type, s.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, class })
	}
	classed := func(class *string) *networkingv1.Ingress {
		made := ingressTo("new")
		made.Spec.IngressClassName = class
		return made
	}
	before, beforeBalanced := classed(ptr.To("before")), balanced(nil)
	before.Name, beforeBalanced.Name = "before", "before"
	must(t)(env.Kube.NetworkingV1().Ingresses(remote).Create(t.Context(), before, metav1.CreateOptions{}))
	must(t)(env.Kube.CoreV1().Services(remote).Create(t.Context(), beforeBalanced, metav1.CreateOptions{}))

	ingressIn := func(namespace string, made *networkingv1.Ingress) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kube.NetworkingV1().Ingresses(namespace).Create(ctx, made, dryCreate)
			return err
		}
	}
	ingress := func(made *networkingv1.Ingress) func(context.Context) error { return ingressIn(remote, made) }
	patchIngress := func(patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kube.NetworkingV1().Ingresses(remote).Patch(ctx, "before", types.MergePatchType, []byte(patch), dryPatch)
			return err
		}
	}
	loadIn := func(namespace string, made *corev1.Service) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kube.CoreV1().Services(namespace).Create(ctx, made, dryCreate)
			return err
		}
	}
	load := func(made *corev1.Service) func(context.Context) error { return loadIn(remote, made) }
	// This remote namespace has its own list of offered classes, and the peer has all permissions
	// in it.
	own := makeNamespaceOf(t, env, "remote-of-own-classes", v1alpha1.RoleRemoteNamespace, "siena")
	env.Kubectl(t, "", "annotate", "namespace", own, v1alpha1.AnnotationIngressClasses+"=other,private",
		v1alpha1.AnnotationLoadBalancerClasses+"=example.com/private")
	env.Grant(t, name, own, rbacv1.PolicyRule{APIGroups: []string{"*"}, Verbs: []string{"*"}, Resources: []string{"*"}})
	annotate := func(subresources ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			patch := []byte(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationIngressClasses + `":"internal"}}}`)
			_, err := kube.CoreV1().Namespaces().Patch(ctx, own, types.MergePatchType, patch, dryPatch, subresources...)
			return err
		}
	}
	annotated := classed(nil)
	annotated.Annotations = map[string]string{"kubernetes.io/ingress.class": "internal"}

	expect(t, []attempt{
		{"any class, where none is offered", "", ingress(classed(ptr.To("internal")))},
		{"another class, where others are offered none", "other, private", ingressIn(own, classed(ptr.To("internal")))},
		{"its own classes", "must not write namespaces", annotate()},
		{"its own classes, through the status", "must not write namespaces", annotate("status")},
		{"any load balancer, where none is offered", "", load(balanced(ptr.To("example.com/internal")))},
	})
	env.Kubectl(t, env.ChartWith(t, []string{`policy.ingressClasses=["offered","second"]`,
		`policy.loadBalancerClasses=["example.com/offered"]`}, "policies-peers.yaml"), "apply", "-f", "-")
	// The policies are restored before the context of the test ends.
	defer func() { env.Kubectl(t, env.Chart(t, "policies-peers.yaml"), "apply", "-f", "-") }()
	expect(t, []attempt{
		{"an ingress of another class", "offered, second", ingress(classed(ptr.To("internal")))},
		{"an ingress of another class by annotation", "offered, second", ingress(annotated)},
		{"an ingress of a class", "", ingress(classed(ptr.To("second")))},
		{"an ingress without a class", "offered, second", ingress(classed(nil))},
		{"an unchanged class of an ingress", "", patchIngress(`{"metadata":{"labels":{"a":"b"}}}`)},
		{"an ingress that gets another class", "offered, second", patchIngress(`{"spec":{"ingressClassName":"internal"}}`)},
		{"an ingress that gets the class", "", patchIngress(`{"spec":{"ingressClassName":"offered"}}`)},
		{"a load balancer of another class", "example.com/offered", load(balanced(ptr.To("example.com/internal")))},
		{"a load balancer without a class, which is the default", "example.com/offered", load(balanced(nil))},
		{"a load balancer of the class", "", load(balanced(ptr.To("example.com/offered")))},
		{"a service of another type", "", load(service("new", nil))},
		{"an ingress in a remote namespace of a consumer that has classes of its own", "", ingressIn(own, classed(ptr.To("private")))},
		{"one of the class that others have in that namespace", "private", ingressIn(own, classed(ptr.To("offered")))},
		{"a load balancer in such a namespace", "", loadIn(own, balanced(ptr.To("example.com/private")))},
		{"one of the class that others have, in such a namespace", "example.com/private", loadIn(own, balanced(ptr.To("example.com/offered")))},
		{"an unchanged class of a load balancer", "", func(ctx context.Context) error {
			_, err := kube.CoreV1().Services(remote).Patch(ctx, "before", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"a":"b"}}}`), dryPatch)
			return err
		}},
	})
}

// An external name could be one that only the provider reaches, and a NetworkPolicy could permit what isolation does
// not.
func TestPoliciesKeepTenantsFromTheNetworkOfTheProvider(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	define(t, env, strings.NewReplacer("example.com", "cilium.io", "widgets", "ciliumnetworkpolicies",
		"widget", "ciliumnetworkpolicy", "Widget", "CiliumNetworkPolicy").Replace(widgetsDefinition),
		"ciliumnetworkpolicies.cilium.io")
	env.Kubectl(t, env.ChartWith(t, []string{
		`policy.reflectedKinds=[{"group":"cilium.io","version":"v1","resource":"ciliumnetworkpolicies"}]`,
	}, "policies-peers.yaml"), "apply", "-f", "-")
	open := makeNamespaceOf(t, env, "remote-of-owner", v1alpha1.RoleRemoteNamespace, "siena")
	closed := makeNamespaceOf(t, env, "remote-of-tenant", v1alpha1.RoleRemoteNamespace, "siena")
	none := makeNamespaceOf(t, env, "remote-without-names", v1alpha1.RoleRemoteNamespace, "siena")
	env.Kubectl(t, "", "annotate", "namespace", closed,
		v1alpha1.AnnotationExternalNames+"=*.example.com,db-*.example.org,db.*.db.example.net",
		v1alpha1.AnnotationNetworkAccess+"=Isolated")
	env.Kubectl(t, "", "annotate", "namespace", none, v1alpha1.AnnotationExternalNames+"=")
	before := service("before", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalName, s.Ports = corev1.ServiceTypeExternalName, "grafana.monitoring.svc.cluster.local", nil
	})
	must(t)(env.Kube.CoreV1().Services(closed).Create(t.Context(), before, metav1.CreateOptions{}))

	const name = "peer-of-network"
	for _, namespace := range []string{open, closed, none} {
		env.Grant(t, name, namespace, rbacv1.PolicyRule{APIGroups: []string{"", "networking.k8s.io", "cilium.io"},
			Verbs:     []string{"get", "create", "patch", "delete"},
			Resources: []string{"services", "networkpolicies", "ciliumnetworkpolicies"}})
	}
	config := env.User(t, name, v1alpha1.PeerGroup)
	kube := kubeOf(t, config)
	others, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	alias := func(namespace, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kube.CoreV1().Services(namespace).Create(ctx, service("new", func(s *corev1.ServiceSpec) {
				s.Type, s.ExternalName, s.Ports = corev1.ServiceTypeExternalName, name, nil
			}), dryCreate)
			return err
		}
	}
	patch := func(patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kube.CoreV1().Services(closed).Patch(ctx, "before", types.MergePatchType, []byte(patch), dryPatch)
			return err
		}
	}
	permit := func(namespace string, labels map[string]string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kube.NetworkingV1().NetworkPolicies(namespace).Create(ctx,
				&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: labels}}, dryCreate)
			return err
		}
	}
	other := apischema.GroupVersionResource{Group: "cilium.io", Version: "v1", Resource: "ciliumnetworkpolicies"}
	policyOfPlugin := func(name string, labels map[string]string) *unstructured.Unstructured {
		policy := &unstructured.Unstructured{}
		policy.SetAPIVersion("cilium.io/v1")
		policy.SetKind("CiliumNetworkPolicy")
		policy.SetName(name)
		policy.SetLabels(labels)
		return policy
	}
	permitOther := func(namespace string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := others.Resource(other).Namespace(namespace).Create(ctx, policyOfPlugin("new", nil), dryCreate)
			return err
		}
	}
	reflected := map[string]string{v1alpha1.LabelOrigin: "siena"}
	admin, err := dynamic.NewForConfig(env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{open, closed} {
		for name, labels := range map[string]map[string]string{"provider": nil, "reflected": reflected} {
			must(t)(env.Kube.NetworkingV1().NetworkPolicies(namespace).Create(t.Context(),
				&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}))
			must(t)(admin.Resource(other).Namespace(namespace).Create(t.Context(), policyOfPlugin(name, labels),
				metav1.CreateOptions{}))
		}
	}
	remove := func(namespace, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return kube.NetworkingV1().NetworkPolicies(namespace).Delete(ctx, name, dryDelete)
		}
	}
	removeOther := func(namespace, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return others.Resource(other).Namespace(namespace).Delete(ctx, name, dryDelete)
		}
	}
	const refused = "does not permit the externalName"
	expect(t, []attempt{
		{"any name, where names are not limited", "", alias(open, "grafana.monitoring.svc.cluster.local")},
		{"a name of the cluster", refused, alias(closed, "grafana.monitoring.svc.cluster.local")},
		{"a name that a pattern matches", "", alias(closed, "db.example.com")},
		{"a name that another pattern matches", "", alias(closed, "db-1.example.org")},
		{"a name that only contains a pattern", refused, alias(closed, "db.example.com.evil.net")},
		{"a name that is shorter than a pattern", refused, alias(closed, "db.db.example.net")},
		{"a name, where none is permitted", refused, alias(none, "db.example.com")},
		{"a Service without an external name, where none is permitted", "", func(ctx context.Context) error {
			_, err := kube.CoreV1().Services(none).Create(ctx, service("new", nil), dryCreate)
			return err
		}},
		{"an unchanged name", "", patch(`{"metadata":{"labels":{"a":"b"}}}`)},
		{"a changed name", refused, patch(`{"spec":{"externalName":"kubernetes.default"}}`)},
		{"a NetworkPolicy, where pods are not isolated", "", permit(open, reflected)},
		{"a NetworkPolicy that is not deleted with isolation", "must have the label", permit(open, nil)},
		{"a NetworkPolicy of isolated pods", "must not write NetworkPolicies", permit(closed, reflected)},
		{"another plugin's policy, where pods are not isolated", "", permitOther(open)},
		{"another plugin's policy of isolated pods", "must not write NetworkPolicies", permitOther(closed)},
		{"the deletion of a NetworkPolicy of the provider", "did not reflect", remove(closed, "provider")},
		{"the deletion of such a NetworkPolicy of pods that are not isolated", "did not reflect", remove(open, "provider")},
		{"the deletion of a reflected NetworkPolicy", "", remove(closed, "reflected")},
		{"the deletion of a policy of another plugin of the provider", "did not reflect", removeOther(closed, "provider")},
		{"the deletion of a reflected policy of another plugin", "", removeOther(closed, "reflected")},
		{"the deletion of a Service", "", func(ctx context.Context) error {
			return kube.CoreV1().Services(closed).Delete(ctx, "before", dryDelete)
		}},
	})
}

// Objects of a tenant are stored in the etcd of the provider, and controllers of the provider read them.
func TestPoliciesLimitTheObjectsOfTenants(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	open := makeNamespaceOf(t, env, "remote-of-large-objects", v1alpha1.RoleRemoteNamespace, "siena")
	limited := makeNamespaceOf(t, env, "remote-of-small-objects", v1alpha1.RoleRemoteNamespace, "siena")
	const most = 128 << 10
	text := func(size int) string { return strings.Repeat("x", size) }
	configMap := func(data, annotations map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new", Annotations: annotations}, Data: data}
	}
	large := configMap(map[string]string{"a": text(2 * most)}, map[string]string{"kubed.appscode.com/sync": ""})
	large.Name = "before"
	must(t)(env.Kube.CoreV1().ConfigMaps(limited).Create(t.Context(), large, metav1.CreateOptions{}))
	env.Kubectl(t, "", "annotate", "namespace", limited, v1alpha1.AnnotationMaxObjectBytes+"="+strconv.Itoa(most),
		v1alpha1.AnnotationMetadataKeys+"=grafana_dashboard,metallb.io/*")

	const name = "peer-of-objects"
	for _, namespace := range []string{open, limited} {
		env.Grant(t, name, namespace, rbacv1.PolicyRule{APIGroups: []string{"", "networking.k8s.io"},
			Verbs: []string{"get", "create", "patch"}, Resources: []string{"configmaps", "secrets", "services", "ingresses"}})
	}
	kube := kubeOf(t, env.User(t, name, v1alpha1.PeerGroup))
	create := func(namespace string, made *corev1.ConfigMap) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kube.CoreV1().ConfigMaps(namespace).Create(ctx, made, dryCreate)
			return err
		}
	}
	annotated := func(key string) func(context.Context) error {
		return create(limited, configMap(nil, map[string]string{key: "x"}))
	}
	patch := func(patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kube.CoreV1().ConfigMaps(limited).Patch(ctx, "before", types.MergePatchType, []byte(patch), dryPatch)
			return err
		}
	}
	secret := func(size int) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kube.CoreV1().Secrets(limited).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "new"},
				Data: map[string][]byte{"a": []byte(text(size))}}, dryCreate)
			return err
		}
	}
	// The time that kube-apiserver takes grows with the square of the number, also for administrators.
	many := map[string]string{}
	for i := range 20_000 {
		many[strconv.Itoa(i)] = ""
	}
	const refused, key = "spec.incomingPolicy.maxObjectBytes", "spec.incomingPolicy.pods.metadataKeys"
	expect(t, []attempt{
		{"a large object, where sizes are not limited", "",
			create(open, configMap(map[string]string{"a": text(900_000)}, nil))},
		{"an object of half the size", "", create(limited, configMap(map[string]string{"a": text(most / 2)}, nil))},
		{"a larger object", refused, create(limited, configMap(map[string]string{"a": text(most)}, nil))},
		{"an object of the maximum of Kubernetes", refused,
			create(limited, configMap(map[string]string{"a": text(900_000)}, nil))},
		{"a text of characters with several bytes", refused,
			create(limited, configMap(map[string]string{"a": strings.Repeat("€", most/2)}, nil))},
		{"an object with many keys", refused, create(limited, configMap(many, nil))},
		{"binary data", refused, create(limited, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new"},
			BinaryData: map[string][]byte{"a": []byte(text(most))}})},
		{"large annotations", refused, create(limited, configMap(nil, map[string]string{"example.com/a": text(most)}))},
		{"a secret of half the size", "", secret(most / 2)},
		{"a larger secret", refused, secret(most)},
		{"an ingress with large annotations", refused, func(ctx context.Context) error {
			made := ingressTo("new")
			made.Annotations = map[string]string{"example.com/a": text(most)}
			_, err := kube.NetworkingV1().Ingresses(limited).Create(ctx, made, dryCreate)
			return err
		}},
		{"an object of another kind", "", func(ctx context.Context) error {
			_, err := kube.CoreV1().Services(limited).Create(ctx, service("new", nil), dryCreate)
			return err
		}},
		{"a large object that becomes smaller", "", patch(`{"data":{"a":"` + text(most) + `"}}`)},
		{"a large object that becomes larger", refused, patch(`{"data":{"b":"` + text(4096) + `"}}`)},

		{"any key, where keys are not limited", "",
			create(open, configMap(nil, map[string]string{"reflector.v1.k8s.emberstack.com/reflection-allowed": "true"}))},
		{"a key of its own", "", annotated("example.com/team")},
		{"a copy in other namespaces", key, annotated("reflector.v1.k8s.emberstack.com/reflection-allowed")},
		{"a copy in other namespaces by another controller", key, annotated("replicator.v1.mittwald.de/replicate-to")},
		{"a permitted key", "", annotated("grafana_dashboard")},
		{"a key that is not permitted", key, annotated("grafana_datasource")},
		{"a rule of the monitoring", key, annotated("prometheus_rule")},
		{"a part of the configuration of another ingress controller", key, annotated("haproxy.org/backend-config-snippet")},
		{"a key that a pattern permits", "", annotated("metallb.io/address-pool")},
		{"a label", key, create(limited, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new",
			Labels: map[string]string{"grafana_alert": "1"}}})},
		{"a part of the configuration of an ingress controller", key,
			annotated("nginx.ingress.kubernetes.io/server-snippet")},
		{"other settings of an ingress controller", "", annotated("nginx.ingress.kubernetes.io/rewrite-target")},
		{"an unchanged key", "", patch(`{"metadata":{"labels":{"a":"b"}},"data":{"a":""}}`)},
		{"a changed key", key, patch(`{"metadata":{"annotations":{"kubed.appscode.com/sync":"b"}},"data":{"a":""}}`)},
	})
}

func service(name string, change func(*corev1.ServiceSpec)) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if change != nil {
		change(&service.Spec)
	}
	return service
}

func ingressTo(service string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: service},
		Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}},
		}}}
}

func peerAttempts(t *testing.T, config *rest.Config, remote string) {
	t.Run("finalizers", func(t *testing.T) { finalizerAttempts(t, config, remote) })
	kube := kubeOf(t, config)
	core := kube.CoreV1()
	makeService := func(change func(*corev1.ServiceSpec)) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := core.Services(remote).Create(ctx, service("new", change), dryCreate)
			return err
		}
	}
	alias := func(name string) func(context.Context) error {
		return makeService(func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalName, s.Ports = corev1.ServiceTypeExternalName, name, nil
		})
	}
	makeSecret := func(kind corev1.SecretType) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := core.Secrets(remote).Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "new",
					Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: kind,
			}, dryCreate)
			return err
		}
	}
	expect(t, []attempt{
		{"a service", "", makeService(nil)},
		{"a service with external addresses", "externalIPs", makeService(func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"192.0.2.9"} })},
		{"external addresses for an existing service", "externalIPs", func(ctx context.Context) error {
			_, err := core.Services(remote).Patch(ctx, "existing", types.MergePatchType,
				[]byte(`{"spec":{"externalIPs":["192.0.2.9"]}}`), dryPatch)
			return err
		}},
		{"a load balancer's address", "loadBalancerIP", makeService(func(s *corev1.ServiceSpec) {
			s.Type, s.LoadBalancerIP = corev1.ServiceTypeLoadBalancer, "192.0.2.9"
		})},
		{"another address of a load balancer", "loadBalancerIP", func(ctx context.Context) error {
			_, err := core.Services(remote).Patch(ctx, "existing", types.MergePatchType,
				[]byte(`{"spec":{"loadBalancerIP":"192.0.2.9"}}`), dryPatch)
			return err
		}},
		{"a change of a service with the address of a load balancer", "", func(ctx context.Context) error {
			_, err := core.Services(remote).Patch(ctx, "existing", types.MergePatchType,
				[]byte(`{"spec":{"loadBalancerIP":"192.0.2.8","sessionAffinity":"ClientIP"}}`), dryPatch)
			return err
		}},
		{"an alias", "", alias("example.com")},
		{"an alias of the node itself", "externalName", alias("localhost")},
		{"an alias of the node itself below a name", "externalName", alias("a.localhost")},
		{"an alias that is an address", "externalName", alias("127.0.0.1")},
		{"the load balancer status of a service", "must not write the status", func(ctx context.Context) error {
			_, err := core.Services(remote).Patch(ctx, "existing", types.MergePatchType,
				[]byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.9"}]}}}`), dryPatch, "status")
			return err
		}},
		{"an ingress", "", func(ctx context.Context) error {
			_, err := kube.NetworkingV1().Ingresses(remote).Create(ctx, ingressTo("new"), dryCreate)
			return err
		}},
		{"the load balancer status of an ingress", "must not write the status", func(ctx context.Context) error {
			_, err := kube.NetworkingV1().Ingresses(remote).Patch(ctx, "existing", types.MergePatchType,
				[]byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.9"}]}}}`), dryPatch, "status")
			return err
		}},
		{"a secret", "", makeSecret(corev1.SecretTypeOpaque)},
		{"a secret that becomes a token", "kubernetes.io/service-account-token", makeSecret(corev1.SecretTypeServiceAccountToken)},
		{"endpoints", "must not write endpoints", func(ctx context.Context) error {
			//nolint:staticcheck // Deprecated kinds can be created, too, so policies must cover them.
			_, err := core.Endpoints(remote).Create(ctx,
				&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "existing"}, Subsets: []corev1.EndpointSubset{{
					Addresses: []corev1.EndpointAddress{{IP: "192.0.2.9"}}, Ports: []corev1.EndpointPort{{Port: 10250}},
				}}}, dryCreate)
			return err
		}},
		{"an endpoint slice", "must not write endpoints", func(ctx context.Context) error {
			_, err := kube.DiscoveryV1().EndpointSlices(remote).Create(ctx, &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Name: "existing"}, AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.9"}}},
			}, dryCreate)
			return err
		}},
		{"a pod", "shadow pods", func(ctx context.Context) error {
			_, err := core.Pods(remote).Create(ctx, pod(nil), dryCreate)
			return err
		}},
		{"a container in a running pod", "shadow pods", func(ctx context.Context) error {
			_, err := core.Pods(remote).Patch(ctx, "existing", types.StrategicMergePatchType,
				[]byte(`{"spec":{"ephemeralContainers":[{"name":"in","image":"example.com/in"}]}}`), dryPatch,
				"ephemeralcontainers")
			return err
		}},
		// Without a node, kube-apiserver refuses a resize to another size before it evaluates
		// policies.
		{"a resize of a pod", "shadow pods", func(ctx context.Context) error {
			_, err := core.Pods(remote).Patch(ctx, "existing", types.MergePatchType, []byte(`{}`), dryPatch, "resize")
			return err
		}},
		{"the status of a pod", "shadow pods", func(ctx context.Context) error {
			_, err := core.Pods(remote).Patch(ctx, "existing", types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`),
				dryPatch, "status")
			return err
		}},
		{"a service account", "must not write ServiceAccounts", func(ctx context.Context) error {
			_, err := core.ServiceAccounts(remote).Create(ctx,
				&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, dryCreate)
			return err
		}},
		{"a token of a service account", "must not write ServiceAccounts", func(ctx context.Context) error {
			_, err := core.ServiceAccounts(remote).CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, dryCreate)
			return err
		}},
	})
}

// finalizerAttempts returns attempts to set finalizers on all kinds that a peer may write, and to
// remove finalizers of the provider's controllers.
func finalizerAttempts(t *testing.T, config *rest.Config, remote string) {
	kube := kubeOf(t, config)
	core := kube.CoreV1()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	stays := metav1.ObjectMeta{Name: "new", Finalizers: []string{"example.org/stays"}}
	widget := func(finalizers ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
			made.SetName("new")
			made.SetFinalizers(finalizers)
			_, err := client.Resource(widgetsResource).Namespace(remote).Create(ctx, made, dryCreate)
			return err
		}
	}
	patch := func(patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := core.ConfigMaps(remote).Patch(ctx, "existing", types.MergePatchType, []byte(patch), dryPatch)
			return err
		}
	}
	const refusal = "must not change finalizers"
	expect(t, []attempt{
		{"a config map", "", func(ctx context.Context) error {
			_, err := core.ConfigMaps(remote).Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, dryCreate)
			return err
		}},
		{"a config map with a finalizer", refusal, func(ctx context.Context) error {
			_, err := core.ConfigMaps(remote).Create(ctx, &corev1.ConfigMap{ObjectMeta: stays}, dryCreate)
			return err
		}},
		{"a secret with a finalizer", refusal, func(ctx context.Context) error {
			_, err := core.Secrets(remote).Create(ctx, &corev1.Secret{ObjectMeta: stays}, dryCreate)
			return err
		}},
		{"a service with a finalizer", refusal, func(ctx context.Context) error {
			made := service("new", nil)
			made.Finalizers = stays.Finalizers
			_, err := core.Services(remote).Create(ctx, made, dryCreate)
			return err
		}},
		{"an ingress with a finalizer", refusal, func(ctx context.Context) error {
			made := ingressTo("new")
			made.Finalizers = stays.Finalizers
			_, err := kube.NetworkingV1().Ingresses(remote).Create(ctx, made, dryCreate)
			return err
		}},
		{"one of another kind", "", widget()},
		{"one of another kind with a finalizer", refusal, widget("example.org/stays")},
		{"a change of an object with a finalizer of the provider", "", patch(`{"data":{"a":"b"}}`)},
		{"one more finalizer", refusal, patch(`{"metadata":{"finalizers":["example.org/cleans-up","example.org/stays"]}}`)},
		{"the deletion of the provider's finalizer", refusal, patch(`{"metadata":{"finalizers":null}}`)},
	})
}
