// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var destination = Destination{OriginID: "rome-id", DestinationID: "milan-id", NodeName: "liqo-milan"}

func TestShadowPodOmitsClusterFields(t *testing.T) {
	// kept has the fields that all cases have and that are forwarded.
	kept := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: ptr.To[int64](7),
		DNSPolicy:                     corev1.DNSClusterFirst,
		Hostname:                      "web",
		ImagePullSecrets:              []corev1.LocalObjectReference{{Name: "registry"}},
		RuntimeClassName:              ptr.To("gvisor"),
		SecurityContext:               &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)},
		Containers:                    []corev1.Container{{Name: "app", Image: "app:1"}},
	}
	tests := []struct {
		name string
		// local modifies the local pod, and remote the expected shadow pod.
		local, remote func(*corev1.PodSpec)
	}{
		{
			name:  "a plain pod",
			local: func(*corev1.PodSpec) {},
		},
		{
			name: "node placement is not forwarded",
			local: func(s *corev1.PodSpec) {
				s.NodeName = "liqo-milan"
				s.NodeSelector = map[string]string{"disk": "ssd"}
				s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
				s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				s.SchedulerName = "mine"
				s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "gate"}}
				s.SchedulingGroup = &corev1.PodSchedulingGroup{}
			},
		},
		{
			name: "tolerations of custom taints are forwarded",
			local: func(s *corev1.PodSpec) {
				s.Tolerations = []corev1.Toleration{
					{Operator: corev1.TolerationOpExists},
					{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
					{Key: "virtual-node.liqo.io/not-allowed", Operator: corev1.TolerationOpExists},
					{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists},
					{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists},
					{Key: "node.cloudprovider.kubernetes.io/uninitialized", Operator: corev1.TolerationOpExists},
					{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists},
				}
			},
			remote: func(s *corev1.PodSpec) {
				s.Tolerations = []corev1.Toleration{
					{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
				}
			},
		},
		{
			name: "priority is not forwarded",
			local: func(s *corev1.PodSpec) {
				s.Priority = ptr.To[int32](1000)
				s.PriorityClassName = "system-node-critical"
				s.PreemptionPolicy = ptr.To(corev1.PreemptNever)
				s.Overhead = corev1.ResourceList{}
				s.EvictionResponders = []corev1.EvictionResponder{{}}
			},
		},
		{
			name: "host namespaces and their host ports are not forwarded",
			local: func(s *corev1.PodSpec) {
				s.HostNetwork, s.HostPID, s.HostIPC = true, true, true
				s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
			},
			remote: func(s *corev1.PodSpec) {
				s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
			},
		},
		{
			name: "a requested host port is forwarded",
			local: func(s *corev1.PodSpec) {
				s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
			},
			remote: func(s *corev1.PodSpec) {
				s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
			},
		},
		{
			name: "identities are dropped",
			local: func(s *corev1.PodSpec) {
				s.ServiceAccountName, s.DeprecatedServiceAccount = "robot", "robot"
				s.AutomountServiceAccountToken = ptr.To(true)
				s.EnableServiceLinks = ptr.To(true)
				s.Volumes = []corev1.Volume{
					projected("kube-api-access-abcde", token(), configMap("kube-root-ca.crt")),
					projected("vault", token()),
					projected("mixed", token(), certificate(), configMap("settings")),
					projected("settings", configMap("settings")),
					{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				}
				mounts := []corev1.VolumeMount{
					{Name: "kube-api-access-abcde", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"},
					{
						Name: "vault", MountPath: "/vault",
					}, {Name: "mixed", MountPath: "/mixed"}, {Name: "data", MountPath: "/data"},
				}
				s.Containers[0].VolumeMounts = mounts
				s.InitContainers = []corev1.Container{{Name: "init", VolumeMounts: mounts}}
			},
			remote: func(s *corev1.PodSpec) {
				s.Volumes = []corev1.Volume{
					projected("mixed", configMap("settings")),
					projected("settings", configMap("settings")),
					{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				}
				mounts := []corev1.VolumeMount{{Name: "mixed", MountPath: "/mixed"}, {Name: "data", MountPath: "/data"}}
				s.Containers[0].VolumeMounts = mounts
				s.InitContainers = []corev1.Container{{Name: "init", VolumeMounts: mounts}}
			},
		},
		{
			name: "gates are not forwarded",
			local: func(s *corev1.PodSpec) {
				s.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/ready"}}
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			local := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "demo", Name: "web", UID: "uid",
					Labels: map[string]string{"app": "web"},
					Annotations: map[string]string{
						"note": "kept", corev1.LastAppliedConfigAnnotation: "{}",
					},
				},
				Spec: *kept.DeepCopy(),
			}
			test.local(&local.Spec)
			before := local.DeepCopy()
			want := *kept.DeepCopy()
			want.AutomountServiceAccountToken, want.EnableServiceLinks = ptr.To(false), ptr.To(false)
			if test.remote != nil {
				test.remote(&want)
			}

			got := ShadowPod(local, "demo-rome", destination, nil)
			if diff := cmp.Diff(want, got.Spec.Pod, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("pod of the shadow pod (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(metav1.ObjectMeta{
				Namespace: "demo-rome", Name: "web",
				Labels: map[string]string{
					"app": "web", "offloading.liqo.io/origin": "rome-id",
					"offloading.liqo.io/destination": "milan-id", "offloading.liqo.io/virtual-node": "liqo-milan",
				},
				Annotations: map[string]string{
					"note": "kept", "offloading.liqo.io/origin-namespace": "demo",
					"offloading.liqo.io/origin-uid": "uid",
				},
			}, got.ObjectMeta); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, local); diff != "" {
				t.Errorf("the local pod was changed:\n%s", diff)
			}
		})
	}
}

func TestUpdateShadowPodChangesOnlyMutableFields(t *testing.T) {
	local := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "web", UID: "uid", Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "app", Image: "app:1"},
				{Name: "side", Image: "side:1", Resources: sized("1")},
			},
			InitContainers: []corev1.Container{{Name: "init", Image: "init:1", Resources: sized("2")}},

			Tolerations:         []corev1.Toleration{{Key: "first", TolerationSeconds: ptr.To[int64](1)}},
			EphemeralContainers: []corev1.EphemeralContainer{debugger("debug")},
		},
	}
	existing := ShadowPod(local, "demo-rome", destination, nil)
	if UpdateShadowPod(existing, ShadowPod(local, "demo-rome", destination, nil)) {
		t.Error("an equal shadow pod was changed")
	}

	local.Labels = map[string]string{"app": "web", "tier": "front"}
	local.Annotations = map[string]string{"note": "new"}
	local.Spec.Containers[1].Image, local.Spec.Containers[1].Resources = "side:2", sized("3")
	local.Spec.InitContainers[0].Image, local.Spec.InitContainers[0].Resources = "init:2", sized("4")
	local.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
	local.Spec.Tolerations = []corev1.Toleration{{Key: "first", TolerationSeconds: ptr.To[int64](2)}, {Key: "second"}}
	local.Spec.EphemeralContainers = append(local.Spec.EphemeralContainers, debugger("again"))
	local.Spec.Hostname = "another"
	desired := ShadowPod(local, "demo-rome", destination, nil)
	if !UpdateShadowPod(existing, desired) {
		t.Fatal("the shadow pod did not change")
	}
	want := desired.DeepCopy()
	want.Spec.Pod.Hostname = ""
	if diff := cmp.Diff(want, existing); diff != "" {
		t.Errorf("updated shadow pod (-want +got):\n%s", diff)
	}
}

func sized(cpus string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}}
}

func TestUpdateWithoutResourcesKeepsThem(t *testing.T) {
	local := podOf(func(s *corev1.PodSpec) { s.Containers = []corev1.Container{{Name: "app", Resources: sized("1")}} })
	existing := ShadowPod(local, "demo-rome", destination, nil)
	local.Spec.Containers[0].Resources = sized("2")
	desired := ShadowPod(local, "demo-rome", destination, nil)
	if !Resizes(existing, desired) {
		t.Error("Resizes does not report the new size")
	}
	KeepResources(desired)
	if Resizes(existing, desired) || UpdateShadowPod(existing, desired) {
		t.Errorf("the shadow pod is resized to %+v", existing.Spec.Pod.Containers[0].Resources)
	}
}

func TestRunningShadowPodKeepsTolerationsAndContainers(t *testing.T) {
	local := podOf(func(s *corev1.PodSpec) {
		s.Tolerations = []corev1.Toleration{{Key: "gpu"}}
		s.EphemeralContainers = []corev1.EphemeralContainer{debugger("debug")}
	})
	existing := ShadowPod(local, "demo-rome", destination, nil)
	local.Spec.Tolerations, local.Spec.EphemeralContainers = nil, nil
	if UpdateShadowPod(existing, ShadowPod(local, "demo-rome", destination, nil)) {
		t.Errorf("the shadow pod changed to %+v", existing.Spec.Pod)
	}
}

func TestRefusedEphemeralContainerIsNotSentAgain(t *testing.T) {
	local := podOf(func(s *corev1.PodSpec) {
		s.EphemeralContainers = []corev1.EphemeralContainer{debugger("privileged"), debugger("plain")}
	})
	RefuseContainers(&local.Status, local.Spec.EphemeralContainers[:1], "privileged\x1b[2J")
	if got := local.Status.EphemeralContainerStatuses; len(got) != 1 ||
		got[0].State.Waiting.Message != "privileged[2J" {
		t.Errorf("got %+v", got)
	}
	got := ShadowPod(local, "demo-rome", destination, nil).Spec.Pod.EphemeralContainers
	if diff := cmp.Diff([]corev1.EphemeralContainer{debugger("plain")}, got); diff != "" {
		t.Errorf("ephemeral containers (-want +got):\n%s", diff)
	}
}

func debugger(name string) corev1.EphemeralContainer {
	return corev1.EphemeralContainer{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "debug:1"},
		TargetContainerName:      "app",
	}
}

func projected(name string, sources ...corev1.VolumeProjection) corev1.Volume {
	return corev1.Volume{
		Name:         name,
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}},
	}
}

func token() corev1.VolumeProjection {
	return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}
}

func certificate() corev1.VolumeProjection {
	return corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/signer"}}
}

func configMap(name string) corev1.VolumeProjection {
	return corev1.VolumeProjection{
		ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}
}
