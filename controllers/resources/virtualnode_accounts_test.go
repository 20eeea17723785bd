// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/generated/informers/externalversions"
)

func TestAccountsOnVirtualNodesAreWrittenDown(t *testing.T) {
	const milan = "liqo-peer-milan:virtual-kubelet-milan:"
	nodes := []*v1alpha1.VirtualNode{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: "milan"}, Spec: v1alpha1.VirtualNodeSpec{NodeName: "liqo-milan"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-paris", Name: "paris"}, Spec: v1alpha1.VirtualNodeSpec{NodeName: "liqo-paris"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}, Spec: v1alpha1.VirtualNodeSpec{NodeName: "liqo-milan"}},
	}
	offloaded := map[string]string{v1alpha1.LabelSchedulingEnabled: "true"}
	for _, test := range []struct {
		name           string
		labels         map[string]string
		access         v1alpha1.APIAccess
		gone           bool
		before         string
		milan          []string
		unknown        bool
		lingers, again time.Duration
		want           string
	}{
		{
			name: "one that has a pod there", labels: offloaded, milan: []string{"robot"},
			want: `{"metadata":{"annotations":{"offloading.liqo.io/accounts":"` + milan + `robot"},"uid":"1"}}`,
		},
		{
			name: "another one, in order", labels: offloaded, before: milan + "robot", milan: []string{"robot", "default"},
			want: `{"metadata":{"annotations":{"offloading.liqo.io/accounts":"` + milan + "default " + milan + `robot"},"uid":"1"}}`,
		},
		{name: "nothing new", labels: offloaded, before: milan + "robot", milan: []string{"robot"}},
		{name: "none, as before", labels: offloaded},
		{
			name: "none any more", labels: offloaded, before: milan + "robot",
			want: `{"metadata":{"annotations":{"offloading.liqo.io/accounts":null},"uid":"1"}}`,
		},
		{name: "one that may come back", labels: offloaded, before: milan + "robot", milan: []string{"robot"}, lingers: time.Second, again: time.Second},
		{name: "nothing yet while nothing is known", labels: offloaded, unknown: true, again: accountsRetry},
		{name: "what was known, until more is", labels: offloaded, before: milan + "robot", unknown: true, again: accountsRetry},
		{
			name: "nothing of a node that is gone", labels: offloaded, before: "liqo-peer-rome:virtual-kubelet-rome:robot",
			want: `{"metadata":{"annotations":{"offloading.liqo.io/accounts":null},"uid":"1"}}`,
		},
		{name: "nothing where nothing is offloaded", milan: []string{"robot"}},
		{
			name: "nothing where nothing is offloaded any more", before: milan + "robot", milan: []string{"robot"},
			want: `{"metadata":{"annotations":{"offloading.liqo.io/accounts":null},"uid":"1"}}`,
		},
		{name: "nothing in a namespace of ours", labels: map[string]string{v1alpha1.LabelSchedulingEnabled: "true", v1alpha1.LabelRole: "twin"}, milan: []string{"robot"}},
		{name: "nothing of a node that keeps tokens at home", labels: offloaded, access: v1alpha1.APIAccessDisabled, milan: []string{"robot"}},
		{
			name: "nothing any more of a node that keeps tokens at home", labels: offloaded, access: v1alpha1.APIAccessDisabled,
			before: milan + "robot", unknown: true,
			want: `{"metadata":{"annotations":{"offloading.liqo.io/accounts":null},"uid":"1"}}`,
		},
		{name: "what lingers is forgotten where nothing is offloaded", milan: []string{"robot"}, lingers: time.Second, again: time.Second},
		{name: "what lingers is forgotten of a namespace that is gone", gone: true, milan: []string{"robot"}, lingers: time.Second, again: time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "1", Labels: test.labels}}
			if test.before != "" {
				namespace.Annotations = map[string]string{v1alpha1.AnnotationAccounts: test.before}
			}
			nodes[0].Spec.APIAccess = test.access
			var wrote string
			a := &nodeAccounts{
				namespace: func(name string) (*corev1.Namespace, error) {
					if test.gone {
						return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
					}
					return namespace, nil
				},
				virtualNodes: func() ([]*v1alpha1.VirtualNode, error) { return nodes, nil },
				accounts: func(node, namespace string) ([]string, time.Duration, bool) {
					if node != "liqo-milan" || namespace != "shop" {
						return nil, 0, true
					}
					return test.milan, test.lingers, !test.unknown
				},
				patch: func(_ context.Context, _ string, patch []byte) error { wrote = string(patch); return nil },
			}
			again, err := a.reconcile(t.Context(), "shop")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, wrote); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if again != test.again {
				t.Errorf("looked at again after %s, want %s", again, test.again)
			}
		})
	}
}

func TestAccountsAreOnlyAwaitedWhereTokensLeave(t *testing.T) {
	for _, test := range []struct {
		home, wrote string
		again       time.Duration
	}{
		{home: "https://rome.example:6443", again: accountsRetry},
		{wrote: `{"metadata":{"annotations":{"offloading.liqo.io/accounts":null},"uid":"1"}}`},
	} {
		t.Run("home at "+test.home, func(t *testing.T) {
			kube := kubefake.NewClientset()
			c := &Config{
				Kube: kube, KubeInformers: kubeinformers.NewSharedInformerFactory(kube, 0),
				FederationInformers: externalversions.NewSharedInformerFactory(fedfake.NewSimpleClientset(), 0),
				VirtualKubelet:      VirtualKubelet{HomeServer: test.home},
			}
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: "shop", UID: "1", Labels: map[string]string{v1alpha1.LabelSchedulingEnabled: "true"},
				Annotations: map[string]string{v1alpha1.AnnotationAccounts: naming.AccountOnNode("liqo-peer-milan", "milan", "robot")},
			}}
			if err := c.KubeInformers.Core().V1().Namespaces().Informer().GetIndexer().Add(namespace); err != nil {
				t.Fatal(err)
			}
			if err := kube.Tracker().Add(namespace); err != nil {
				t.Fatal(err)
			}
			if err := c.FederationInformers.Federation().V1alpha1().VirtualNodes().Informer().GetIndexer().Add(&v1alpha1.VirtualNode{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: "milan"}, Spec: v1alpha1.VirtualNodeSpec{NodeName: "liqo-milan"},
			}); err != nil {
				t.Fatal(err)
			}
			// A node that never comes is never watched.
			unknown := func(string) bool { return false }
			again, err := c.accounts(newAccountUses(testingclock.NewFakeClock(time.Time{}), unknown, func(string) {})).reconcile(t.Context(), "shop")
			if err != nil || again != test.again {
				t.Errorf("looked at again after %s, want %s; %v", again, test.again, err)
			}
			var wrote string
			for _, action := range kube.Actions() {
				if patch, ok := action.(clienttesting.PatchAction); ok {
					wrote = string(patch.GetPatch())
				}
			}
			if diff := cmp.Diff(test.wrote, wrote); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAccountsCountWhileTheyHavePodsAndAMomentLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock, told := testingclock.NewFakePassiveClock(now), 0
		uses := newAccountUses(clock, func(node string) bool { return node == "liqo-milan" }, func(namespace string) {
			if namespace != "shop" {
				t.Fatalf("namespace %s is told", namespace)
			}
			told++
		})
		count := func(account string, by int) bool {
			before := told
			uses.count("liqo-milan", &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.PodSpec{ServiceAccountName: account},
			}, by)
			return told > before
		}
		names := rapid.SampledFrom([]string{"default", "robot"})
		pods, ended := map[string]int{}, map[string]time.Time{}
		t.Repeat(map[string]func(*rapid.T){
			"a pod comes": func(t *rapid.T) {
				account := names.Draw(t, "account")
				pods[account]++
				if first := count(account, 1); first != (pods[account] == 1) {
					t.Fatalf("pod %d is the first one: %t", pods[account], first)
				}
			},
			"a pod goes": func(t *rapid.T) {
				account := names.Draw(t, "account")
				if pods[account] == 0 {
					return
				}
				if pods[account]--; pods[account] == 0 {
					ended[account] = clock.Now()
				}
				if last := count(account, -1); last != (pods[account] == 0) {
					t.Fatalf("with %d left it was the last one: %t", pods[account], last)
				}
			},
			"time passes": func(t *rapid.T) {
				clock.SetTime(clock.Now().Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second))
			},
			"": func(t *rapid.T) {
				got, again, known := uses.of("liqo-milan", "shop")
				if others, _, _ := uses.of("liqo-milan", "bank"); !known || len(others) > 0 {
					t.Fatalf("known: %t, elsewhere: %v", known, others)
				}
				var want []string
				for _, account := range []string{"default", "robot"} {
					left := ended[account].Add(accountLinger).Sub(clock.Now())
					if pods[account] > 0 || !ended[account].IsZero() && left > 0 {
						want = append(want, account)
					}
					if pods[account] == 0 && !ended[account].IsZero() && left > 0 && (again == 0 || again > left) {
						t.Fatalf("%s ends in %s, it is looked at in %s", account, left, again)
					}
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("accounts (-want +got):\n%s", diff)
				}
			},
		})
		if _, _, known := uses.of("liqo-paris", "shop"); known {
			t.Fatal("the pods of a node are known that nobody has looked at")
		}
		uses.forget("liqo-milan")
		if left, _, _ := uses.of("liqo-milan", "shop"); len(left) > 0 {
			t.Fatalf("accounts %v of a node that is gone", left)
		}
	})
}
