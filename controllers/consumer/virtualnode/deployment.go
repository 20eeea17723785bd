// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/leader"
	"liqo.io/federation/controllers/remote"
)

const (
	virtualKubeletRole = "federation-virtual-kubelet"
	virtualKubeletUser = 65532
	virtualKubeletPort = 10250
	identityMount      = "/etc/federation/identity"

	// annotationTemplate is the annotation with the hash of the applied pod template. The stored template cannot be
	// compared, because the API server sets defaults in it.
	annotationTemplate = "federation.liqo.io/template-hash"
)

// kubeletName returns the name of the Deployment and ServiceAccount of a virtual kubelet.
func kubeletName(node *v1alpha1.VirtualNode) string { return naming.VirtualKubelet(node.Name) }

// bindingName returns the name of the ClusterRoleBinding of a virtual kubelet.
func bindingName(node *v1alpha1.VirtualNode) string { return virtualKubeletRole + "-" + node.Name }

func ownedMeta(node *v1alpha1.VirtualNode) metav1.ObjectMeta {
	meta := kit.Managed(node.Namespace, kubeletName(node))
	owner := metav1.NewControllerRef(node, v1alpha1.SchemeGroupVersion.WithKind("VirtualNode"))
	meta.OwnerReferences = []metav1.OwnerReference{*owner}
	return meta
}

func newAccount(node *v1alpha1.VirtualNode) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: ownedMeta(node)}
}

func newBinding(node *v1alpha1.VirtualNode) *rbacv1.ClusterRoleBinding {
	meta := kit.Managed(node.Namespace, bindingName(node))
	meta.Namespace = ""
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Namespace: node.Namespace, Name: kubeletName(node)},
		},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: virtualKubeletRole},
	}
}

// newDeployment returns the Deployment of a virtual kubelet. It depends only on the virtual node and the settings.
func (r *Reconciler) newDeployment(node *v1alpha1.VirtualNode, foreignCluster string) (*appsv1.Deployment, error) {
	labels := map[string]string{
		"app.kubernetes.io/name":     "federation-virtual-kubelet",
		"app.kubernetes.io/instance": node.Name,
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			ServiceAccountName: kubeletName(node),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   ptr.To(true),
				RunAsUser:      ptr.To[int64](virtualKubeletUser),
				RunAsGroup:     ptr.To[int64](virtualKubeletUser),
				FSGroup:        ptr.To[int64](virtualKubeletUser),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{r.newContainer(node, foreignCluster)},
			Volumes:    []corev1.Volume{identityVolume()},
		},
	}
	hash, err := hashOf(template)
	if err != nil {
		return nil, err
	}
	meta := ownedMeta(node)
	meta.Annotations = map[string]string{annotationTemplate: hash}
	return &appsv1.Deployment{
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			// Only one virtual kubelet of a node is active.
			Strategy:             appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			RevisionHistoryLimit: ptr.To[int32](1),
			Selector:             &metav1.LabelSelector{MatchLabels: labels},
			Template:             template,
		},
	}, nil
}

// identityVolume returns the volume with the identity at the provider, and with the token with which the virtual
// kubelet authenticates to the proxy of the local gateway.
func identityVolume() corev1.Volume {
	return corev1.Volume{Name: "identity", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](0o440),
		Sources: []corev1.VolumeProjection{
			{
				Secret: &corev1.SecretProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: remote.SecretName},
				},
			},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Audience: v1alpha1.ControlAudience, ExpirationSeconds: ptr.To[int64](3600), Path: remote.KeyProxyToken,
			}},
		},
	}}}
}

func (r *Reconciler) newContainer(node *v1alpha1.VirtualNode, foreignCluster string) corev1.Container {
	container := corev1.Container{
		Name:            "federation-virtual-kubelet",
		Image:           r.VirtualKubelet.Image,
		ImagePullPolicy: corev1.PullPolicy(r.VirtualKubelet.PullPolicy),
		Args: []string{
			"--node-name=" + node.Spec.NodeName,
			"--virtual-node=" + node.Name,
			"--namespace=" + node.Namespace,
			"--installation-namespace=" + r.Namespace,
			"--foreign-cluster=" + foreignCluster,
			"--cluster-id=" + r.ClusterID,
			"--consumer-name=" + r.ClusterName,
			"--remote-cluster-id=" + node.Spec.ClusterID,
			"--node-ip=$(POD_IP)",
			"--identity-dir=" + identityMount,
			"--logging-format=json",
		},
		Env: []corev1.EnvVar{ofPod("POD_IP", "status.podIP"), ofPod(leader.PodName, "metadata.name")},
		Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: virtualKubeletPort,
			Protocol: corev1.ProtocolTCP}},
		LivenessProbe:  probe("/livez", 10, 6, 10),
		ReadinessProbe: probe("/readyz", 1, 3, 5),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("20m"),
				corev1.ResourceMemory: resource.MustParse("64Mi"),
			},
			// The Go runtime allocates memory per processor, for example 20 MB for 32 processors. Two processors handle
			// hundreds of pods per second.
			Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "identity", MountPath: identityMount, ReadOnly: true}},
	}
	if limit := r.VirtualKubelet.MemoryLimit.Quantity; !limit.IsZero() {
		container.Resources.Limits[corev1.ResourceMemory] = limit
	}
	if len(r.RefusedEndpointCIDRs) > 0 {
		container.Args = append(container.Args,
			"--policy-refused-endpoint-cidrs="+strings.Join(r.RefusedEndpointCIDRs, ","))
	}
	if r.VirtualKubelet.ConsumerAPIServer != "" {
		container.Args = append(container.Args, "--consumer-api-server="+r.VirtualKubelet.ConsumerAPIServer)
	}
	if r.VirtualKubelet.ConsumerAPIServerThroughTunnels {
		container.Args = append(container.Args, "--consumer-api-server-through-tunnels")
	}
	return container
}

// ofPod returns an environment variable with the value of a field of the pod.
func ofPod(name, field string) corev1.EnvVar {
	selector := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: field}
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: selector}}
}

func probe(path string, period, failures, timeout int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromString("https"), Scheme: corev1.URISchemeHTTPS,
		}},
		PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: timeout,
	}
}

func hashOf(template corev1.PodTemplateSpec) (string, error) {
	encoded, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("encoding a pod template: %w", err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}
