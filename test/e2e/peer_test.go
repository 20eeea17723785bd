// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/harness"
)

// identityAt returns a client configuration for a provider with the consumer's identity, which it
// reads from the consumer's Secret.
func identityAt(t *testing.T, provider *harness.Cluster) *rest.Config {
	t.Helper()
	secrets := otherThan(provider).Kube.CoreV1().Secrets("liqo-peer-" + provider.Name)
	secret := must(secrets.Get(t.Context(), "identity", metav1.GetOptions{}))(t)
	config := &rest.Config{
		Host:            string(secret.Data["server"]),
		TLSClientConfig: rest.TLSClientConfig{CAData: secret.Data["ca.crt"]},
		BearerToken:     string(secret.Data["token"]),
		QPS:             -1,
	}
	if config.BearerToken == "" {
		config.CertData, config.KeyData = secret.Data["tls.crt"], secret.Data["tls.key"]
	}
	return config
}

// attempt is a request that the identity of a peer must not be allowed to send.
type attempt struct{ method, path string }

// attempts returns requests with every verb of a resource. An empty namespace means all namespaces.
func attempts(groupVersion string, r metav1.APIResource, namespace string) []attempt {
	path := "/apis/" + groupVersion
	if groupVersion == "v1" {
		path = "/api/v1"
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	parent, subresource, isSub := strings.Cut(r.Name, "/")
	path += "/" + parent
	named := path + "/anything"
	if isSub {
		named += "/" + subresource
	}
	var all []attempt
	for _, verb := range r.Verbs {
		switch verb {
		case "get":
			all = append(all, attempt{"GET", named})
		case "update":
			all = append(all, attempt{"PUT", named})
		case "patch":
			all = append(all, attempt{"PATCH", named})
		case "delete":
			all = append(all, attempt{"DELETE", named})
		case "create":
			if isSub {
				all = append(all, attempt{"POST", named})
			} else {
				all = append(all, attempt{"POST", path})
			}
		case "list":
			all = append(all, attempt{"GET", path})
		case "watch":
			all = append(all, attempt{"GET", path + "?watch=true"})
		case "deletecollection":
			all = append(all, attempt{"DELETE", path})
		}
	}
	return all
}

// publicGroups are API groups that every authenticated user may use.
var publicGroups = []string{"authentication.k8s.io", "authorization.k8s.io"}

func peerCannotWriteUnofferedNamespace(t *testing.T) {
	// A namespace of milan with the name of the offloaded namespace of rome is not a remote
	// namespace.
	o := serving(t)
	unoffered := namespaceOn(t, milan)
	identity := identityAt(t, milan)
	client := must(versioned.NewForConfig(identity))(t).FederationV1alpha1()
	if _, err := client.ShadowPods(o.remote).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatalf("the identity does not work in its own namespace: %v", err)
	}
	all := everyAttempt(t, milan, unoffered, metav1.NamespaceDefault, metav1.NamespaceSystem, "liqo", "liqo-invitations",
		"liqo-tenant-unknown", metav1.NamespaceAll)
	t.Logf("%d requests", len(all))
	if len(all) < 1000 {
		t.Fatalf("only %d requests were found to try", len(all))
	}
	areForbidden(t, identity, all)
}

// everyAttempt returns requests with every verb of every resource in the namespaces.
// metav1.NamespaceAll adds cluster-scoped resources.
func everyAttempt(t *testing.T, c *harness.Cluster, namespaces ...string) []attempt {
	t.Helper()
	_, lists, err := c.Kube.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var all []attempt
	for _, list := range lists {
		group, _, _ := strings.Cut(list.GroupVersion, "/")
		if slices.Contains(publicGroups, group) {
			continue
		}
		for _, r := range list.APIResources {
			for _, namespace := range namespaces {
				if r.Namespaced || namespace == metav1.NamespaceAll {
					all = append(all, attempts(list.GroupVersion, r, namespace)...)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b attempt) int { return strings.Compare(a.method+a.path, b.method+b.path) })
	return slices.Compact(all)
}

// areForbidden sends all requests with the identity of a peer, several at a time, and fails the
// test for each that is not forbidden.
func areForbidden(t *testing.T, identity *rest.Config, all []attempt) {
	t.Helper()
	config := rest.CopyConfig(identity)
	config.APIPath = "/"
	config.ContentConfig = rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}
	client := must(rest.UnversionedRESTClientFor(config))(t)
	work := make(chan attempt)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for a := range work {
				request := client.Verb(a.method).RequestURI(a.path)
				switch a.method {
				case "PATCH":
					request.SetHeader("Content-Type", string(types.MergePatchType)).Body([]byte("{}"))
				case "POST", "PUT":
					request.SetHeader("Content-Type", "application/json").Body([]byte("{}"))
				}
				if err := request.Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
					t.Errorf("%s %s with the identity of a peer: %v, want it forbidden", a.method, a.path, err)
				}
			}
		})
	}
	for _, a := range all {
		work <- a
	}
	close(work)
	workers.Wait()
}

// shadowPodCannotEscapeToNode creates privileged ShadowPods with the identity of rome's virtual
// kubelet. Milan must refuse to create their pods.
func shadowPodCannotEscapeToNode(t *testing.T) {
	o := offloaded(t, remoteOnly)
	client := must(versioned.NewForConfig(identityAt(t, milan)))(t).FederationV1alpha1().ShadowPods(o.remote)
	node := must(milan.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t).Items[0].Name
	container := func(s *corev1.PodSpec) *corev1.SecurityContext {
		s.Containers[0].SecurityContext = &corev1.SecurityContext{}
		return s.Containers[0].SecurityContext
	}
	volume := func(s *corev1.PodSpec, source corev1.VolumeSource) {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
	}
	honest := func(name string) *v1alpha1.ShadowPod {
		shadow := &v1alpha1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.ShadowPodSpec{Pod: podSpec("serve")}}
		shadow.Spec.Pod.AutomountServiceAccountToken = ptr.To(false)
		return shadow
	}
	escapes := map[string]func(*corev1.PodSpec){
		"hostPath": func(s *corev1.PodSpec) {
			volume(s, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})
		},
		"privileged":  func(s *corev1.PodSpec) { container(s).Privileged = ptr.To(true) },
		"hostNetwork": func(s *corev1.PodSpec) { s.HostNetwork = true },
		"hostPID":     func(s *corev1.PodSpec) { s.HostPID = true },
		"hostIPC":     func(s *corev1.PodSpec) { s.HostIPC = true },
		"hostPort": func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		},
		"nodeName": func(s *corev1.PodSpec) { s.NodeName = node },
		"anti-affinity to pods of others": func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{
				PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{},
					NamespaceSelector: &metav1.LabelSelector{},
				}}}}
		},
		"capabilities": func(s *corev1.PodSpec) {
			container(s).Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}
		},
		"procMount": func(s *corev1.PodSpec) { container(s).ProcMount = ptr.To(corev1.UnmaskedProcMount) },
		"unconfined seccomp": func(s *corev1.PodSpec) {
			container(s).SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		},
		"unconfined apparmor": func(s *corev1.PodSpec) {
			container(s).AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		},
		"sysctl": func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
		},
		"an account of the provider": func(s *corev1.PodSpec) { s.ServiceAccountName = "mighty" },
		"a token of the provider":    func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = ptr.To(true) },
		"a projected token": func(s *corev1.PodSpec) {
			volume(s, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
				ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"},
			}}}})
		},
		"a system priority class": func(s *corev1.PodSpec) { s.PriorityClassName = "system-node-critical" },
		"an init container": func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{*s.Containers[0].DeepCopy()}
			s.InitContainers[0].Name = "first"
			s.InitContainers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		},
		"an ephemeral container": func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug", Image: testerImage, SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)},
			}}}
		},
	}
	for name, escape := range escapes {
		t.Run(name, func(t *testing.T) {
			shadow := honest("escape")
			escape(&shadow.Spec.Pod)
			_, err := client.Create(t.Context(), shadow, metav1.CreateOptions{})
			if !refused(err) {
				t.Errorf("creating the shadow pod: %v, want it refused", err)
			} else if apierrors.IsInvalid(err) && !strings.Contains(err.Error(), "spec.pod") {
				t.Errorf("%v does not name a field in spec.pod", err)
			}
		})
	}

	t.Run("by a later change", func(t *testing.T) {
		must(client.Create(t.Context(), honest("honest"), metav1.CreateOptions{}))(t)
		for name, escape := range escapes {
			current := must(client.Get(t.Context(), "honest", metav1.GetOptions{}))(t)
			escape(&current.Spec.Pod)
			if _, err := client.Update(t.Context(), current, metav1.UpdateOptions{}); !refused(err) {
				t.Errorf("%s: %v, want it refused", name, err)
			}
		}
	})

	for _, pod := range must(milan.Kube.CoreV1().Pods(o.remote).List(t.Context(), metav1.ListOptions{}))(t).Items {
		if pod.Name == "escape" {
			t.Errorf("milan created the pod: %s", fmt.Sprint(pod.Spec))
		}
	}
}
