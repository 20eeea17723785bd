// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// The shadow pod of a pod that uses the consumer's API server is created when the provider has an address for it. Other
// shadow pods are created immediately.
func TestPodWaitsForTheAddressOfTheConsumersAPI(t *testing.T) {
	for name, test := range map[string]struct {
		network *v1alpha1.VirtualNodeNetwork
		mapped  []string
		change  func(s *sender, pod *corev1.Pod)
		want    string // the address that the pod gets for the API server; empty if the pod waits
	}{
		"by its mapping": {
			network: mappedNetwork(), mapped: []string{"10.70.0.9"}, want: "10.71.0.9",
		},
		"no mapping yet":                   {network: mappedNetwork()},
		"before the tunnel is agreed upon": {network: &v1alpha1.VirtualNodeNetwork{}, mapped: []string{"10.70.0.9"}},
		"no tunnel":                        {want: "10.96.0.1"},
		"not through the tunnel": {
			network: mappedNetwork(), change: func(s *sender, _ *corev1.Pod) { s.ConsumerAPIServerThroughTunnels = false },
			want: "10.96.0.1",
		},
		"disabled by the pod": {network: mappedNetwork(), change: func(_ *sender, pod *corev1.Pod) {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationAPIAccess, "Disabled")
		}, want: "nowhere"},
		"disabled by the VirtualNode": {
			network: mappedNetwork(),
			change:  func(s *sender, _ *corev1.Pod) { s.APIAccessAllowed = func() bool { return false } },
			want:    "nowhere",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSender(t, func(string) error { return nil })
			pod := localPod("web")
			local := kubefake.NewClientset(pod.DeepCopy())
			vn := &v1alpha1.VirtualNode{Status: v1alpha1.VirtualNodeStatus{Network: test.network}}
			s.Local, s.To.ConsumerAPI, s.ConsumerAPIServerThroughTunnels = local, translate.ConsumerAPI{
				Host: "10.96.0.1",
				Port: "443",
			}, true
			s.Network = &Network{
				VirtualNode: func() *v1alpha1.VirtualNode { return vn },
				Mapped:      func(string) []string { return test.mapped },
			}
			if test.change != nil {
				test.change(s, pod)
			}
			s.Lister = corev1listers.NewPodLister(kittest.Indexer(pod))
			if err := s.create(t.Context(), cache.MetaObjectToName(pod), pod, s.remoteNamespace); err != nil {
				t.Fatal(err)
			}
			shadow, err := s.provider.FederationV1alpha1().ShadowPods("demo-rome").Get(
				t.Context(), "web", metav1.GetOptions{},
			)
			if test.want == "" {
				reported, errPod := local.CoreV1().Pods("demo").Get(t.Context(), "web", metav1.GetOptions{})
				if !apierrors.IsNotFound(err) || errPod != nil ||
					reported.Status.Reason != v1alpha1.ReasonOffloadingBackOff {
					t.Fatalf("status reason %q (%v), shadow pod: %v", reported.Status.Reason, errPod, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			led := "nowhere"
			for _, alias := range shadow.Spec.Pod.HostAliases {
				led = alias.IP
			}
			if led != test.want {
				t.Errorf("address %s, want %s", led, test.want)
			}
		})
	}
}
